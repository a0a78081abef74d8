"""Recurring schedules: entries, and how far each has come. Each instant is enqueued once, however many schedulers run."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from stem.core.envelope import Envelope, Push
from stem.core.errors import StoreRefused
from stem.core.text.sensitive import masked_object

Misfire = Literal["skip", "once", "all"]
Overlap = Literal["allow", "skip", "buffer-one", "cancel-other"]
Source = Literal["code", "file", "runtime"]


class ScheduleEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What to enqueue and when. `spec` is a cron line, an interval, a moment or a solar event.

    `options` are those of `task.options(…)`. `version` grows with every edit. An entry that an app declares names the app
    (`origin`) and has a digest of the declaration (`declared`), so that an edit at run time is kept until the code changes.
    `seal` is its signature where keys are set.
    """

    id: str
    task: str
    spec: str
    args: dict[str, Any] = {}
    options: dict[str, Any] = {}
    time_zone: str = "UTC"
    latitude: float | None = None
    longitude: float | None = None
    jitter_seconds: float = 0.0
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_runs: int | None = None
    misfire: Misfire = "once"
    misfire_window_seconds: float = 86_400.0
    overlap: Overlap = "allow"
    pause_after_failures: int | None = None
    is_enabled: bool = True
    note: str = ""
    source: Source = "runtime"
    origin: str = ""
    declared: str = ""
    seal: str = ""
    version: int = 0

    @property
    def shown_args(self) -> dict[str, Any]:
        """The arguments for people and logs: those that the option `sensitive` names are masked."""
        names = self.options.get("sensitive")
        return masked_object(self.args, map(str, names)) if isinstance(names, list) else self.args


class ScheduleRun(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One line of an entry's history. `task_id` is None if nothing was enqueued; `reason` says why."""

    instant: datetime
    at: datetime
    task_id: str | None = None
    reason: str = ""


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How far an entry has come. `instant` is the next one by the calendar, `due_at` when it is enqueued: the instant and
    its jitter. Both are None when none is left. `counted_task_id` is the run that `failures_in_a_row` has counted last."""

    instant: datetime | None = None
    due_at: datetime | None = None
    last_run_at: datetime | None = None
    last_task_id: str | None = None
    run_count: int = 0
    failures_in_a_row: int = 0
    counted_task_id: str | None = None
    is_buffered: bool = False
    history: tuple[ScheduleRun, ...] = ()


class Scheduled(msgspec.Struct, frozen=True):
    """A stored entry. `revision` changes with every write, of the entry or of its state."""

    entry: ScheduleEntry
    state: ScheduleState
    revision: int


class Schedules(ABC):
    """The schedule entries of a namespace. One that cannot be read is left out of `all` and `due` and named in `broken`."""

    @abstractmethod
    def get(self, entry_id: str) -> Scheduled | None:
        """The entry of this id. Raises StoreRefused, naming the entry, if what is stored cannot be read."""

    @abstractmethod
    def all(self) -> list[Scheduled]:
        """All entries, by id."""

    @abstractmethod
    def broken(self) -> list[str]:
        """Ids of stored entries that cannot be read, by id. Such an entry can be written anew with revision None, or deleted."""

    @abstractmethod
    def write(
        self, entry: ScheduleEntry, state: ScheduleState, *, revision: int | None, pushes: Sequence[Push] = ()
    ) -> Scheduled | None:
        """Store the entry, its state and the pushes: all or none. Returns it as stored, with a new revision.

        `revision` is the one that the caller has read; 0 creates the entry; None replaces one that cannot be read. None is
        returned, and nothing written, if the entry has changed since: of several schedulers that fire the same instant one
        succeeds. Pushes are stored as `Broker.push` stores them, so one whose id is known adds nothing; a task that is created
        also has a `scheduled` event, with `event_of` as its data. Wakes `wait`.
        """

    @abstractmethod
    def delete(self, entry_id: str) -> bool:
        """Delete the entry; False if there was none. Its tasks stay. Wakes `wait`."""

    @abstractmethod
    def due(self, *, limit: int) -> list[Scheduled]:
        """Entries whose `due_at` has come by the store's clock, enabled or not, earliest first."""

    @abstractmethod
    def next_due_at(self) -> datetime | None:
        """The earliest `due_at` of all entries; None if there is none."""

    @abstractmethod
    def wait(self, *, timeout_seconds: float) -> bool:
        """Sleep until an entry is due or has changed (True) or the time is up (False). May return True for nothing."""


def versioned(entry: ScheduleEntry, stored: ScheduleEntry | None) -> ScheduleEntry:
    """Return the entry with the version that it gets when it is stored: one more than before if it differs."""
    if stored is None:
        return msgspec.structs.replace(entry, version=1)
    is_same = is_same_entry(entry, stored)
    return msgspec.structs.replace(entry, version=stored.version if is_same else stored.version + 1)


def is_same_entry(entry: ScheduleEntry, stored: ScheduleEntry) -> bool:
    """Whether they are the same JSON but for the version. Python would take 1 for True."""
    one, other = (
        msgspec.json.encode(msgspec.structs.replace(each, version=0), order="deterministic") for each in (entry, stored)
    )
    return one == other


def event_of(entry: ScheduleEntry, envelope: Envelope) -> dict[str, Any]:
    """Return the data of the `scheduled` event of a task that this entry enqueues: entry, instant and tenant."""
    tenant = envelope.headers.get("tenant")
    facts = {"schedule": entry.id, "scheduledFor": envelope.meta.get("scheduledFor"), "tenant": tenant or None}
    return {name: value for name, value in facts.items() if value is not None}


def read_scheduled(
    entry_id: object, revision: object, entry: Any, state: Any, *, is_strict: bool = True
) -> Scheduled | None:
    """Decode a stored entry. Raises StoreRefused if it cannot be read, or returns None where that is not strict."""
    try:
        found = Scheduled(_entries.decode(entry), _states.decode(state), msgspec.convert(revision, int))
        problem = _problem(entry_id, found)
        if not problem:
            return found
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        problem = str(error)
    if is_strict:
        raise StoreRefused(
            f"Schedule {entry_id} cannot be read ({problem}); write it anew, or remove it with: stem schedule remove"
        )
    return None


def _problem(entry_id: object, found: Scheduled) -> str:
    entry, state = found.entry, found.state
    if entry.id != entry_id:
        return f"it names itself {entry.id!r}"
    runs = (moment for run in state.history for moment in (run.instant, run.at))
    moments = (entry.starts_at, entry.ends_at, state.instant, state.due_at, state.last_run_at, *runs)
    return "a time has no zone" if any(each is not None and each.tzinfo is None for each in moments) else ""


_entries = msgspec.json.Decoder(ScheduleEntry)
_states = msgspec.json.Decoder(ScheduleState)
