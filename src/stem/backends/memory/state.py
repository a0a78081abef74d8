"""Hold everything that a memory store remembers, under one lock."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappush
from threading import Condition
from typing import Any

import msgspec

from stem.backends.tenants import REPORTS
from stem.contracts.schedules import Scheduled
from stem.contracts.steps import Step
from stem.core.decisions.ratelimit import Level
from stem.core.decisions.reclaim_watch import ReclaimWatch
from stem.core.envelope import Push
from stem.core.event import Event
from stem.core.heartbeat import Heartbeat
from stem.core.lifecycle import TERMINAL, EventKind, State, waiting_state
from stem.core.prerequisites import OnFailure
from stem.core.record import TaskError, TaskRecord, moment, moment_or_none, noted
from stem.core.revoke import RevokeRecord
from stem.core.settings.app import Retention
from stem.runtime.clock import Clock


@dataclass(slots=True, eq=False)
class MemoryTask:
    """A task as the store knows it: its record, and while it lives its place in the queue."""

    seq: int
    id: str
    name: str
    queue: str
    priority: int
    enqueued_at: float
    updated_at: float
    meta: dict[str, Any]
    tenant: str | None = None
    state: State = State.QUEUED
    attempt: int = 0
    fence: int = 0
    payload: msgspec.Raw | None = None
    error: TaskError | None = None
    worker: str | None = None
    started_at: float | None = None
    finished_at: float | None = None
    heartbeat_at: float | None = None
    # Only while it waits, runs, or lies among the dead letters:
    body: bytes = b""
    visibility_timeout: float | None = None
    due_at: float = 0.0
    expires_at: float | None = None
    deaths: int = 0
    leased_until: float | None = None
    unique_key: str | None = None
    place: int = 0  # of its valid entry in a queue's heaps; 0: not waiting
    awaited_event: str | None = None  # that makes it due
    # Prerequisites:
    pending: set[str] = field(default_factory=set)  # those that still count
    dependents: list[str] = field(default_factory=list)  # ids of tasks that wait, or waited, for it
    on_failure: OnFailure = OnFailure.CANCEL
    release_delay: float | None = None
    is_join: bool = False
    ends_when_released: bool = False
    passes: bool = False  # counts as a success although it was cancelled

    @property
    def is_blocked(self) -> bool:
        return bool(self.pending) and self.state not in TERMINAL

    @property
    def is_revivable(self) -> bool:
        """Cancelled for a failed prerequisite, which may yet succeed."""
        return bool(self.pending) and self.state is State.CANCELLED

    @property
    def is_open_join(self) -> bool:
        """It is blocked, or can be revived: either way it still counts its members."""
        return self.is_join and bool(self.pending)

    @property
    def has_succeeded(self) -> bool:
        return self.state is State.SUCCEEDED or self.passes

    def record(self) -> TaskRecord:
        return TaskRecord(
            id=self.id,
            name=self.name,
            queue=self.queue,
            state=self.state,
            attempt=self.attempt,
            fence=self.fence,
            priority=self.priority,
            payload=self.payload,
            error=self.error,
            meta=noted(dict(self.meta), moment_or_none(self.heartbeat_at)),
            worker=self.worker,
            enqueued_at=moment(self.enqueued_at),
            started_at=moment_or_none(self.started_at),
            finished_at=moment_or_none(self.finished_at),
            heartbeat_at=moment_or_none(self.heartbeat_at),
            updated_at=moment(self.updated_at),
        )


@dataclass(slots=True)
class Queue:
    """Heaps with entries that may be stale: an entry counts only while its place is still the task's."""

    ready: list[tuple[int, int, int, MemoryTask]] = field(default_factory=list)  # (-priority, seq, place, task)
    delayed: list[tuple[float, int, int, MemoryTask]] = field(default_factory=list)  # (due_at, seq, place, task)


@dataclass(slots=True)
class MemoryLetter:
    seq: int
    task: MemoryTask
    reason: str
    meta: dict[str, Any]
    dead_at: float


@dataclass(slots=True)
class Posted:
    number: int
    message: bytes
    expires_at: float


@dataclass(slots=True)
class StoreHandle:
    """One open store on a state that others may share. Closing it ends its waiting calls."""

    is_closed: bool = False


class MemoryState:
    def __init__(self, retention: Retention, clock: Clock) -> None:
        self.retention = retention
        self.clock = clock
        self.changed = Condition()  # guards everything below
        self.tasks: dict[str, MemoryTask] = {}
        self.queues: dict[str, Queue] = {}
        self.leased: dict[str, MemoryTask] = {}
        self.lost: dict[tuple[str, int], float] = {}  # (id, fence) of a running task: when it was reclaimed
        self.watch: ReclaimWatch | None = None  # kept by reclaim
        self.dead: dict[str, MemoryLetter] = {}
        self.uniques: dict[str, tuple[str, float | None, float]] = {}  # key: (holder's id, held until, series since)
        self.cascade: deque[str] = deque()  # tasks that this call has ended, whose dependents have not been told
        self.unfinished: deque[str] = deque()  # ended tasks that had too many dependents to cancel in one call
        self.steps: dict[str, dict[str, Step]] = {}  # task: name: step
        self.log: deque[tuple[int, Event]] = deque()
        self.revokes: dict[str, RevokeRecord] = {}
        self.locks: dict[str, tuple[str, int, float]] = {}  # name: (owner, fence, until)
        self.heartbeats: dict[str, tuple[Heartbeat, float, float]] = {}  # worker: (beat, at, until)
        self.buckets: dict[str, tuple[Level, float]] = {}  # key: (level, until)
        self.places: dict[str, dict[str, float]] = {}  # key: holder: until
        self.boxes: dict[str, deque[Posted]] = {}
        self.channels: dict[str, deque[Posted]] = {}
        self.staged: dict[str, tuple[dict[str, list[Push]], float]] = {}  # job: (part: pushes, last staged at)
        self.promoted: dict[str, tuple[int, int, float]] = {}  # job: (created, known, at)
        self.schedules: dict[str, Scheduled] = {}
        self.rollups: dict[tuple[int, str], str] = {}  # (minute, digest): body
        self.task_logs: dict[str, deque[tuple[int, float, str]]] = {}  # position, time, line
        self._numbers: dict[str, int] = {}

    def number(self, what: str) -> int:
        """The next of a series that only grows: seq, fence, place, offset, revoke, lock, mail."""
        value = self._numbers.get(what, 0) + 1
        self._numbers[what] = value
        return value

    def last_number(self, what: str) -> int:
        return self._numbers.get(what, 0)

    def tell(self, kind: EventKind, task: MemoryTask, at: float, data: dict[str, Any] | None = None) -> None:
        if task.tenant is not None and kind not in REPORTS:
            data = {"tenant": task.tenant, **(data or {})}
        offset = self.number("offset")
        event = Event(
            offset=str(offset),
            kind=kind,
            at=moment(at),
            task_id=task.id,
            name=task.name,
            queue=task.queue,
            attempt=task.attempt,
            worker=task.worker,
            enqueued_at=moment(task.enqueued_at),
            started_at=moment_or_none(task.started_at),
            data=data or {},
        )
        self.log.append((offset, event))

    def tell_of_worker(self, kind: EventKind, worker: str, at: float, data: dict[str, Any]) -> None:
        offset = self.number("offset")
        event = Event(
            offset=str(offset),
            kind=kind,
            at=moment(at),
            task_id="",
            name="",
            queue="",
            attempt=0,
            worker=worker,
            enqueued_at=moment(at),
            started_at=None,
            data=data,
        )
        self.log.append((offset, event))

    def enter(self, task: MemoryTask, now: float, due_at: float) -> None:
        """Put the task into its queue, at the place that its priority and age give it."""
        queue = self.queues.setdefault(task.queue, Queue())
        task.due_at = due_at
        task.place = self.number("place")
        if due_at <= now:
            heappush(queue.ready, (-task.priority, task.seq, task.place, task))
        else:
            heappush(queue.delayed, (due_at, task.seq, task.place, task))

    def wait_again(self, task: MemoryTask, now: float, due_at: float) -> None:
        self.leased.pop(task.id, None)
        task.leased_until = task.worker = task.started_at = None
        task.state, task.updated_at = waiting_state(task.attempt), now
        self.enter(task, now, due_at)

    def readable(self, task_id: str) -> MemoryTask | None:
        """The task, unless it is unknown or retention has outlived its record."""
        task = self.tasks.get(task_id)
        return None if task is None or self.is_outlived(task) else task

    def is_known(self, task_id: str) -> bool:
        task = self.tasks.get(task_id)
        return task is not None and not (self.is_outlived(task) and not self.is_needed(task))

    def is_needed(self, task: MemoryTask) -> bool:
        """Whether a task that waited for it may still read its record."""
        return any(
            each.state not in TERMINAL or each.id in self.dead or each.is_revivable or each.ends_when_released
            for each in (self.tasks[id] for id in task.dependents if id in self.tasks)
        )

    def is_outlived(self, task: MemoryTask) -> bool:
        horizon = self.clock() - self.retention.results_seconds
        return task.state in TERMINAL and task.id not in self.dead and (task.finished_at or 0.0) <= horizon

    def sleep_until(self, is_true: Callable[[], bool], timeout_seconds: float, handle: StoreHandle) -> bool:
        """Wait, under the lock, for a condition that some change makes true."""
        end = time.monotonic() + timeout_seconds
        while not is_true():
            left = end - time.monotonic()
            if left <= 0 or handle.is_closed:
                return False
            self.changed.wait(left)
        return True
