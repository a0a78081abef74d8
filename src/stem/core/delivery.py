"""A claim on a task: the delivery, its lease, and what its holder reports about it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from stem.core import envelope as envelopes
from stem.core.envelope import Envelope, Push
from stem.core.errors import UsageError
from stem.core.outcome import Dead, Requeue, Settlement
from stem.core.record import TaskError


class Lease(msgspec.Struct, frozen=True, array_like=True):
    """A worker's hold on a task. `fence` grows with every claim, which tells an old holder from the current one."""

    id: str
    fence: int


TWO_PRIORITIES = (
    -1
)  # of a task whose place in its queue is not that of its priority: somebody has changed one of the two


class Delivery(msgspec.Struct, frozen=True):
    """A claimed task. `body` is the envelope as it was sent; `deaths` counts the isolates that crashed running it.

    `priority` is the one by which the store chose it. None: it was handed over as it was pushed, so it waited in no queue.
    """

    lease: Lease
    name: str
    queue: str
    attempt: int
    deaths: int
    body: bytes
    priority: int | None = None

    @property
    def envelope(self) -> Envelope:
        """The envelope, decoded on each access. Raises EnvelopeUnreadable."""
        return envelopes.decode(self.body, attempt=self.attempt)


class Ending(msgspec.Struct, frozen=True):
    """One settlement on its way into the store, with everything that must be written together with it.

    `run_seconds` is how long the attempt ran; None says it never started. `meta` is merged, key by key, into the record.
    `facts` are further fields of its events, such as the tenant.
    """

    lease: Lease
    settlement: Settlement
    run_seconds: float | None = None
    meta: dict[str, Any] = {}
    follow_ups: tuple[Push, ...] = ()
    facts: dict[str, Any] = {}


def survivors(refused: Sequence[Lease], endings: Sequence[Ending]) -> list[Lease]:
    """Return the refused leases whose attempts survived. An ending that reports a crash takes no crash back."""
    died = {ending.lease for ending in endings if _is_crash(ending.settlement)} if refused else ()
    return [lease for lease in refused if lease not in died]


def _is_crash(settlement: Settlement) -> bool:
    match settlement:
        case Requeue(died=died):
            return died
        case Dead(reason=reason):
            return reason == "crash-loop"
        case _:
            return False


class DeadCall(msgspec.Struct, frozen=True):
    """A call that failed for good outside of a worker. `attempt` is its last attempt and `run_seconds` how long that ran;
    None: it never started."""

    envelope: Envelope
    settlement: Dead
    attempt: int = 0
    run_seconds: float | None = None


class Report(msgspec.Struct, frozen=True):
    """A sign of life from a running task. `progress` None makes it a heartbeat; else it is merged into the record's meta.

    `ago_seconds` is how long ago the attempt began; it counts only if the store does not know yet.
    """

    lease: Lease
    progress: dict[str, Any] | None = None
    ago_seconds: float = 0.0


def begun_ago(leases: Sequence[Lease], ago_seconds: Sequence[float]) -> list[float]:
    """Return how long ago each attempt began, never negative. Raises UsageError."""
    if ago_seconds and len(ago_seconds) != len(leases):
        raise UsageError(f"{len(leases)} leases and {len(ago_seconds)} ago_seconds; give one for each lease, or none.")
    return [max(0.0, ago) for ago in ago_seconds] or [0.0] * len(leases)


class Depth(msgspec.Struct, frozen=True):
    """Exact counts of one queue. `running` counts live leases, started or not; `blocked` counts tasks that wait for others."""

    ready: int = 0
    delayed: int = 0
    running: int = 0
    dead: int = 0
    blocked: int = 0


class DeadLetter(msgspec.Struct, frozen=True, rename="camel"):
    """A task that failed for good, with what is needed to understand and replay it. `meta` is what the ending said, and
    `replayCount` and `lastReplayAt` if it was replayed before."""

    id: str
    name: str
    queue: str
    attempt: int
    reason: str
    error: TaskError | None
    meta: dict[str, Any]
    dead_at: datetime
    body: bytes
    worker: str | None = None  # the one that ran it last

    @property
    def envelope(self) -> Envelope:
        """Raises EnvelopeUnreadable."""
        return envelopes.decode(self.body, attempt=self.attempt)


class DeadFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects dead letters. None means any; `since` and `until` bound when the task became one."""

    ids: tuple[str, ...] | None = None
    queue: str | None = None
    name: str | None = None
    reason: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Reclaimed(msgspec.Struct, frozen=True):
    """Ids of tasks whose lease had expired: returned to their queues, or dead as a crash loop."""

    returned: list[str]
    dead: list[str]


class Peeked(msgspec.Struct, frozen=True):
    """A waiting task, listed in claim order. `due_at` is in the past if it is ready."""

    id: str
    name: str
    queue: str
    priority: int
    attempt: int
    due_at: datetime
    body: bytes
