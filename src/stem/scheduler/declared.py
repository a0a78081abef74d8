"""Bring the entries that an app declares into the store."""

import logging
from collections.abc import Iterable

import msgspec

from stem.contracts.schedules import Scheduled, ScheduleEntry
from stem.core.ids import content_key
from stem.scheduler.entries import EntryWriter

log = logging.getLogger("stem.beat")

RETIRED = "no longer declared by the code"


def store_declared(writer: EntryWriter, entries: Iterable[ScheduleEntry], *, origin: str) -> None:
    """Create and update entries, and retire those that this app declared earlier and no longer does.

    An edit at run time is kept until the declaration itself changes. Several schedulers may do this at once.
    """
    declared = {entry.id: _of(entry, origin) for entry in entries}
    stored = {each.entry.id: each for each in writer.schedules.all()}
    broken = set(writer.schedules.broken())
    for entry in declared.values():
        found = stored.get(entry.id)
        is_stored = found is not None and found.entry.declared == entry.declared
        if not is_stored and writer.save(entry, found, is_broken=entry.id in broken):
            log.info("schedule.declared id=%s spec=%r", entry.id, entry.spec)
    for each in stored.values():
        if each.entry.origin == origin and each.entry.source == "code" and each.entry.id not in declared:
            _retire(writer, each)


def _of(entry: ScheduleEntry, origin: str) -> ScheduleEntry:
    digest = content_key([msgspec.to_builtins(entry)])
    return msgspec.structs.replace(entry, source="code", origin=origin, declared=digest)


def _retire(writer: EntryWriter, found: Scheduled) -> None:
    if not found.entry.declared:
        return
    entry = msgspec.structs.replace(found.entry, is_enabled=False, note=RETIRED, declared="")
    if writer.save(entry, found):
        log.info("schedule.retired id=%s", entry.id)
