"""Bring the entries that code and configuration file declare into the store."""

import logging
from collections.abc import Sequence
from typing import Literal

import msgspec

from stem.contracts.schedules import Scheduled, ScheduleEntry
from stem.core.errors import ConfigError
from stem.core.ids import content_key
from stem.scheduler.entries import EntryWriter

log = logging.getLogger("stem.beat")

RETIRED = {"code": "no longer declared by the code", "file": "no longer declared by the configuration file"}


class Declarations(msgspec.Struct, frozen=True):
    """All that one owner declares. `origin` names the app, so that its entries are told from those of another."""

    source: Literal["code", "file"]
    origin: str
    entries: Sequence[ScheduleEntry]


def store_declared(writer: EntryWriter, *owners: Declarations) -> None:
    """Create and update entries, and retire those that these owners declared earlier and no longer do.

    An edit at run time is kept until the declaration itself changes. Several schedulers may do this at once. Raises
    ConfigError if two owners declare the same id.
    """
    declared = _by_id(owners)
    stored = {each.entry.id: each for each in writer.schedules.all()}
    broken = set(writer.schedules.broken())
    for entry in declared.values():
        _store(writer, entry, stored.get(entry.id), is_broken=entry.id in broken)
    ours = {(owner.source, owner.origin) for owner in owners}
    for each in stored.values():
        if (each.entry.source, each.entry.origin) in ours and each.entry.id not in declared:
            _retire(writer, each)


def _by_id(owners: Sequence[Declarations]) -> dict[str, ScheduleEntry]:
    declared: dict[str, ScheduleEntry] = {}
    for owner in owners:
        for entry in owner.entries:
            if entry.id in declared:
                raise ConfigError(
                    f"Schedule {entry.id} is declared by the code and by the configuration file; remove it from one."
                )
            digest = content_key([msgspec.to_builtins(entry)])
            owned = {"source": owner.source, "origin": owner.origin, "declared": digest}
            declared[entry.id] = msgspec.structs.replace(entry, **owned)
    return declared


def _store(writer: EntryWriter, entry: ScheduleEntry, found: Scheduled | None, *, is_broken: bool) -> None:
    # Saving signs, so what is kept has to be signed already: else a stranger's entry would become ours.
    if found is not None and found.entry.declared == entry.declared and writer.is_signed(found.entry):
        if (found.entry.source, found.entry.origin) == (entry.source, entry.origin):
            return
        # It has moved, from code to file say. An edit at run time stays.
        entry = msgspec.structs.replace(found.entry, source=entry.source, origin=entry.origin)
    if writer.save(entry, found, is_broken=is_broken):
        log.info("schedule.declared id=%s spec=%r", entry.id, entry.spec)


def _retire(writer: EntryWriter, found: Scheduled) -> None:
    if not found.entry.declared or not writer.is_signed(found.entry):
        return
    note = RETIRED[found.entry.source]
    entry = msgspec.structs.replace(found.entry, is_enabled=False, note=note, declared="")
    if writer.save(entry, found):
        log.info("schedule.retired id=%s", entry.id)
