"""Add, change and run schedule entries. An entry that somebody else has changed meanwhile is never overwritten."""

import hashlib
import os
import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from stem.calendar.entry import Entry
from stem.client.schedules.check import calendar_of, check_entry
from stem.contracts.schedules import Scheduled, ScheduleEntry, Schedules, ScheduleState
from stem.contracts.store import Store
from stem.core.envelope import Push
from stem.core.errors import SignatureInvalid, UsageError
from stem.core.ids import uuid7
from stem.core.settings.app import Settings
from stem.runtime.keys import Keyring
from stem.scheduler.decide import LATE_SECONDS, upcoming
from stem.scheduler.sealing import check_seal, sealed

if TYPE_CHECKING:
    from stem.client.app import Stem

MOST_BACKFILLED = 10_000


class ScheduleChanged(UsageError):
    """Somebody else has changed the entry since it was read."""


class EntryWriter:
    """Writes the entries of a store, signed where keys are set."""

    def __init__(self, store: Store, keyring: Keyring) -> None:
        self._store = store
        self._keyring = keyring

    @classmethod
    def of(cls, store: Store, settings: Settings) -> "EntryWriter":
        """Raises ConfigError."""
        return cls(store, Keyring.parse(settings.control_keys))

    @property
    def schedules(self) -> Schedules:
        return self._store.schedules

    def save(self, entry: ScheduleEntry, found: Scheduled | None, *, is_broken: bool = False) -> Scheduled | None:
        """Create the entry, or replace the one found; None if that has changed meanwhile.

        Its next instant is counted from now if it is new, enabled again or has another calendar. The runs so far are kept, and
        so is an instant that is due and not enqueued yet.
        """
        check_entry(entry)
        now = self._now()
        state = ScheduleState() if found is None else found.state
        if found is None or (_moves(found.entry, entry) and not _is_being_fired(found, now)):
            state = upcoming(entry, calendar_of(entry), now, random.random(), state)  # noqa: S311 - no secret
        revision = found.revision if found is not None else None if is_broken else 0
        return self.schedules.write(self.sealed(entry), state, revision=revision)

    def change(self, entry_id: str, **changes: Any) -> Scheduled:
        """Change some fields of an entry. Raises UsageError if there is none, ScheduleChanged, SignatureInvalid."""
        found = find(self.schedules, entry_id)
        self.check_seal(found.entry)  # else signing the change would sign what somebody else has written
        saved = self.save(msgspec.structs.replace(found.entry, **changes), found)
        if saved is None:
            raise ScheduleChanged(
                f"Schedule {entry_id} was changed by somebody else at the same moment; look, then try again."
            )
        return saved

    def edited(self, entry: ScheduleEntry, found: Scheduled | None) -> ScheduleEntry:
        """Return the entry as an edit of the one found: its owner stays the one who declared it, and may change it again."""
        if found is None or not self.is_signed(found.entry):
            return entry
        before = found.entry
        return msgspec.structs.replace(entry, source=before.source, origin=before.origin, declared=before.declared)

    def sealed(self, entry: ScheduleEntry) -> ScheduleEntry:
        return sealed(entry, self._keyring, self._store.namespace)

    def check_seal(self, entry: ScheduleEntry) -> None:
        """Raises SignatureInvalid."""
        check_seal(entry, self._keyring, self._store.namespace)

    def is_signed(self, entry: ScheduleEntry) -> bool:
        """Whether it may be signed again after a change; without keys, any may."""
        try:
            self.check_seal(entry)
        except SignatureInvalid:
            return False
        return True

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._store.upkeep.now(), UTC)


def find(schedules: Schedules, entry_id: str) -> Scheduled:
    """Raises UsageError, naming what there is."""
    found = schedules.get(entry_id)
    if found is None:
        raise UsageError(f"There is no schedule {entry_id!r}; see which there are with: stem schedule list")
    return found


def pushes_of(app: "Stem", entry: ScheduleEntry, instant: datetime, *, task_id: str) -> list[Push]:
    """Build the call of an entry, or one call for each live worker if a route broadcasts its task. A task that the app does
    not know is sent all the same: its worker reports it. Raises InvalidTask, InvalidArguments, NoLiveWorkers."""
    meta = {**entry.options.get("meta", {}), "schedule": entry.id, "scheduledFor": instant.astimezone(UTC).isoformat()}
    options: Mapping[str, Any] = {**entry.options, "id": task_id, "meta": meta}
    return app.sender(entry.task, check=False).options(**options).compose(entry.args)


def run_now(app: "Stem", entry_id: str) -> str:
    """Enqueue an entry once, outside its calendar; returns the task's id, of a broadcast the first."""
    entry = _trusted(app, entry_id)
    now = datetime.fromtimestamp(app.store.upkeep.now(), UTC)
    pushes = pushes_of(app, entry, now, task_id=uuid7(now.timestamp(), os.urandom(10)))
    app.store_connection.push(pushes, None)
    return pushes[0].envelope.id


def backfill(app: "Stem", entry_id: str, since: datetime, until: datetime) -> Iterable[str]:
    """Enqueue the instants of a period, the first and the last moment included; yields the tasks' ids.

    An instant that was enqueued before, by a scheduler or by another backfill, is not enqueued again.
    """
    entry = _trusted(app, entry_id)
    pushes = [
        push
        for instant in _between(calendar_of(entry), since, until)
        for push in pushes_of(app, entry, instant, task_id=task_id_of(app.settings.namespace, entry.id, instant))
    ]
    for start in range(0, len(pushes), 1000):
        receipts = app.store_connection.push(pushes[start : start + 1000], None)
        yield from (receipt.id for receipt in receipts if receipt.created)


def task_id_of(namespace: str, entry_id: str, instant: datetime) -> str:
    """Return the id of the task of an entry and an instant: the same from every scheduler, so the task exists once."""
    digest = hashlib.sha256(f"{namespace}\n{entry_id}\n{instant.astimezone(UTC).isoformat()}".encode()).digest()
    return uuid7(max(0.0, instant.timestamp()), digest[:10])


def _trusted(app: "Stem", entry_id: str) -> ScheduleEntry:
    """Raises UsageError, SignatureInvalid."""
    entry = find(app.store.schedules, entry_id).entry
    EntryWriter.of(app.store, app.settings).check_seal(entry)
    return entry


def _moves(before: ScheduleEntry, after: ScheduleEntry) -> bool:
    """Whether an edit changes when the entry is due."""
    fields = ("spec", "time_zone", "latitude", "longitude", "jitter_seconds", "starts_at", "ends_at", "max_runs")
    is_enabled_again = after.is_enabled and not before.is_enabled
    return is_enabled_again or any(getattr(before, name) != getattr(after, name) for name in fields)


def _is_being_fired(found: Scheduled, now: datetime) -> bool:
    """Whether its instant has come a moment ago: what a later edit says holds from the next one on."""
    due_at = found.state.due_at
    lately = now - timedelta(seconds=LATE_SECONDS)
    return found.entry.is_enabled and due_at is not None and lately < due_at <= now


def _between(calendar: Entry, since: datetime, until: datetime) -> list[datetime]:
    found: list[datetime] = []
    instant = calendar.next_after(since - timedelta.resolution)
    while instant is not None and instant <= until:
        found.append(instant)
        if len(found) > MOST_BACKFILLED:
            raise UsageError(f"The period has more than {MOST_BACKFILLED:,} instants; backfill it in parts.")
        instant = calendar.next_after(instant)
    return found
