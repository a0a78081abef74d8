"""Signals: call your own functions when something happens in this process.

Each signal is sent in one kind of process, once per happening:

- client, wherever code enqueues: `before_enqueue`, `after_enqueue`
- isolate, the processes that run tasks: `isolate_started`, `task_started`, and how an attempt ended: `task_succeeded`,
  `task_failed`, `task_retried`, `task_revoked`
- supervisor, the process of a `Worker`: `worker_ready`, `worker_draining`, `worker_stopped`, `isolate_recycled`, `autoscaled`,
  and the endings that no isolate can tell of: `task_failed` and `task_retried` after a hard limit, `task_failed` after the
  last of several crashes and for a wrong signature, `task_revoked` of a task that was killed for it or had not started
- scheduler, `stem beat`: `schedule_fired`

`signals.task_failed.connect(handler)`, in a module that the app imports, reaches client, isolates and scheduler. The supervisor
never imports the app, so its signals reach only code that starts a `Worker` itself. What happens in other processes is in the
event log (see `app.events`), and so is what no worker decides: a revoke of a task that waits, the crash of a whole machine.

Handlers are called one after the other, in the thread where it happens, and that thread waits for them. An exception is logged
and stops nothing. A signal without handlers costs nothing.
"""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from stem.core.outcome import Cancelled, Dead, Done, Retry, Settlement

if TYPE_CHECKING:
    from stem.client.run.context import TaskContext
    from stem.core.delivery import Delivery
    from stem.core.envelope import Envelope

T = TypeVar("T")
HandlerT = TypeVar("HandlerT", bound=Callable[..., object])

log = logging.getLogger("stem.signals")


class Signal(Generic[T]):
    """Calls its handlers with one value that says what happened."""

    __slots__ = ("handlers", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.handlers: tuple[Callable[[T], object], ...] = ()

    def connect(self, handler: HandlerT) -> HandlerT:
        """Call this function from now on; connecting it again changes nothing. Returns it, so it can be a decorator."""
        if handler not in self.handlers:
            self.handlers = (*self.handlers, handler)
        return handler

    def disconnect(self, handler: Callable[[T], object]) -> None:
        """Call it no more; unknown ones are ignored."""
        self.handlers = tuple(each for each in self.handlers if each != handler)

    def send(self, value: T) -> None:
        """Stem calls this. Nothing but a KeyboardInterrupt gets out of it."""
        for handler in self.handlers:
            try:
                handler(value)
            except KeyboardInterrupt:
                raise
            except BaseException:
                name = getattr(handler, "__qualname__", type(handler).__qualname__)
                log.exception("signal.failed signal=%s handler=%s", self.name, name)

    def __repr__(self) -> str:
        return f"<Signal {self.name}: {len(self.handlers)} handlers>"


class EnqueuedCall(msgspec.Struct, frozen=True):
    """A call that was stored under `id`. `created` is False if an earlier call with its id or its unique key stands for it."""

    envelope: "Envelope"
    id: str
    created: bool


class AttemptEnded(msgspec.Struct, frozen=True):
    """How one attempt of a task ended, right before that is written to the store. `context` is None if the attempt never
    began, and in the supervisor, which has neither the app nor the task's code."""

    context: "TaskContext | None"
    settlement: "Settlement"
    run_seconds: float
    delivery: "Delivery"
    worker: str

    @property
    def task_id(self) -> str:
        return self.delivery.lease.id

    @property
    def name(self) -> str:
        return self.delivery.name

    @property
    def queue(self) -> str:
        return self.delivery.queue

    @property
    def attempt(self) -> int:
        """0 for the first."""
        return self.delivery.attempt

    @property
    def error(self) -> Any:
        """The TaskError of one that failed or is retried; None otherwise."""
        return getattr(self.settlement, "error", None)


class WorkerPhase(msgspec.Struct, frozen=True):
    """A worker that begins, drains or has ended. `mode` says how it stops: warm, soft or hard."""

    worker: str
    queues: tuple[str, ...]
    mode: str | None = None


class IsolateProcess(msgspec.Struct, frozen=True):
    """One child process. `reason` says why it is recycled."""

    worker: str
    pid: int
    reason: str = ""


class PoolScaled(msgspec.Struct, frozen=True):
    """The numbers of isolates before and after."""

    worker: str
    before: int
    after: int
    reason: str


class ScheduleFired(msgspec.Struct, frozen=True):
    """A task that a schedule has enqueued for an instant."""

    schedule: str
    task: str
    instant: datetime
    task_id: str


before_enqueue: "Signal[Envelope]" = Signal("before_enqueue")
after_enqueue: Signal[EnqueuedCall] = Signal("after_enqueue")

isolate_started: Signal[IsolateProcess] = Signal("isolate_started")
task_started: "Signal[TaskContext]" = Signal("task_started")
task_succeeded: Signal[AttemptEnded] = Signal("task_succeeded")
task_failed: Signal[AttemptEnded] = Signal("task_failed")
task_retried: Signal[AttemptEnded] = Signal("task_retried")
task_revoked: Signal[AttemptEnded] = Signal("task_revoked")

worker_ready: Signal[WorkerPhase] = Signal("worker_ready")
worker_draining: Signal[WorkerPhase] = Signal("worker_draining")
worker_stopped: Signal[WorkerPhase] = Signal("worker_stopped")
isolate_recycled: Signal[IsolateProcess] = Signal("isolate_recycled")
autoscaled: Signal[PoolScaled] = Signal("autoscaled")

schedule_fired: Signal[ScheduleFired] = Signal("schedule_fired")

ENDINGS: dict[type[Settlement], Signal[AttemptEnded]] = {
    Done: task_succeeded,
    Dead: task_failed,
    Retry: task_retried,
    Cancelled: task_revoked,
}  # which signal tells of which ending; what goes back to its queue has not ended
