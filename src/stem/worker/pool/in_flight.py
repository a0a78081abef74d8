"""Tasks in flight: claimed by this worker and not yet settled in the store."""

import time
from collections.abc import Iterable
from itertools import count
from signal import SIGTERM
from threading import Condition

from stem.contracts.limiter import Place
from stem.core.delivery import Delivery
from stem.core.envelope import due_at
from stem.core.outcome import Outcome
from stem.worker.fork.manifest import TaskFacts

UNREAD = float("-inf")

_numbers = count(1)


class InFlightTask:
    """One claimed delivery. `number` identifies it between supervisor and isolate and is never reused.

    Rarely used fields have their defaults on the class, because one object is made for every task.
    """

    _due_at: float | None = UNREAD
    places: tuple[Place, ...] = ()
    start_reported: bool = False  # the store knows that it runs
    started_at: float = 0.0  # as the isolate says; set when the start is reported
    soft_limit_sent: bool = False
    is_ended: bool = False  # its ending is on the way to the store
    has_died: bool = False  # with its isolate
    ended_at: float = 0.0  # when the pool learnt of its end
    start_counted: bool = False  # in the metrics
    trace_id: str = ""  # as the isolate says
    is_decided_here: bool = False  # how it ended: its isolate has told nobody of that
    lease_lost: bool = False  # another worker holds it
    beats: int = 0  # heartbeats seen so far
    stop_outcome: Outcome | None = None  # its outcome unless it succeeds: the supervisor is stopping it
    stop_requested_at: float = 0.0
    signal: int = SIGTERM  # sent if it ignores the request to stop
    stop_signal_sent: bool = False
    crashes_unstarted: int = 0  # crashes of an isolate that held it and, by its own account, had not started it
    cleanup_outcome: Outcome | None = None  # its outcome, while an engine cleans up after its crashed isolate
    ran_seconds: float = 0.0  # until that crash

    def __init__(self, delivery: Delivery, facts: TaskFacts | None) -> None:
        self.delivery = delivery
        self.lease = delivery.lease
        self.facts = facts  # None: the app has no task of that name; the isolate reports that
        self.number = next(_numbers)
        self.claimed_at = self.renewed_at = time.monotonic()

    @property
    def due_at(self) -> float | None:
        """When it was enqueued, or was due if that was later; None if its envelope is unreadable."""
        if self._due_at == UNREAD:
            self._due_at = due_at(self.delivery.body)
        return self._due_at

    @property
    def is_async(self) -> bool:
        return self.facts is not None and self.facts.is_async

    @property
    def is_inline(self) -> bool:
        return self.facts is not None and not self.facts.isolate

    @property
    def has_engine(self) -> bool:
        return self.facts is not None and self.facts.engine is not None

    def await_cleanup(self, outcome: Outcome, ran_seconds: float) -> None:
        """Its isolate has crashed: another isolate ends what its engine left running before the outcome is settled."""
        self.cleanup_outcome, self.ran_seconds = outcome, ran_seconds
        self.stop_requested_at, self.beats, self.soft_limit_sent = 0.0, 0, True
        self.claimed_at = time.monotonic()  # it waits from now on


class InFlightTasks:
    """All tasks in flight by number: added when admitted, removed when settled or when the lease is lost.

    Safe from any thread: each change is one operation of a dict.
    """

    def __init__(self) -> None:
        self.by_number: dict[int, InFlightTask] = {}
        self._emptied = Condition()

    def __len__(self) -> int:
        return len(self.by_number)

    def __contains__(self, task: InFlightTask) -> bool:
        return task.number in self.by_number

    def all(self) -> list[InFlightTask]:
        return list(self.by_number.values())

    def add(self, tasks: Iterable[InFlightTask]) -> None:
        for task in tasks:
            self.by_number[task.number] = task

    def remove(self, tasks: Iterable[InFlightTask]) -> None:
        for task in tasks:
            self.by_number.pop(task.number, None)
        if not self.by_number:
            with self._emptied:
                self._emptied.notify_all()

    def wait_until_empty(self, timeout_seconds: float | None) -> bool:
        """True once nothing is in flight; False after the timeout."""
        with self._emptied:
            return self._emptied.wait_for(lambda: not self.by_number, timeout_seconds)
