"""What a running task knows of itself, and how it speaks to whoever runs it."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from datetime import timedelta
from logging import Logger, LoggerAdapter, getLogger
from threading import Lock
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, Protocol, TypeVar, Unpack, overload

import msgspec

from stem.client.options import CallOptions
from stem.client.policy import seconds as checked_seconds
from stem.core.delivery import Delivery
from stem.core.encode import encode_json
from stem.core.envelope import Envelope, Push, Receipt
from stem.core.errors import InvalidTask, UsageError

if TYPE_CHECKING:
    from stem.client.app import Stem
    from stem.client.handle import TaskHandle
    from stem.client.sender import Sender
    from stem.contracts.engine import Interrupter

P = ParamSpec("P")
R = TypeVar("R")

PARENT_ID, ROOT_ID = "parentId", "rootId"  # in an envelope's meta
TENANT_HEADER = "tenant"
MAX_PROGRESS_BYTES = 2048


class Channel(Protocol):
    """How a running task reaches whoever runs it."""

    def beat(self, progress: dict[str, Any] | None) -> None:
        """A sign of life, with progress or (None) without. May raise TaskRevoked."""

    def extend(self, seconds: float) -> None:
        """Keep the lease for at least this long from now. May raise TaskRevoked."""

    def push(self, pushes: Sequence[Push]) -> list[Receipt]:
        """As the broker's push, through a connection that is open already."""


class RetryRequested(BaseException):
    """How `ctx.retry` leaves the handler. No Exception, so that an `except Exception` on the way does not undo it."""

    def __init__(self, delay_seconds: float | None, reason: str) -> None:
        super().__init__(reason)
        self.delay_seconds = delay_seconds


class TaskContext:
    """One attempt of a task, as its handler sees it: a parameter of this class is filled in, `current_task()` finds it.

    It is good while the attempt runs, in any thread of it.
    """

    __slots__ = (
        "_app",
        "_channel",
        "_envelope",
        "_logger",
        "_notes",
        "_turn",
        "delivery",
        "has_told",
        "interrupter",
        "is_running",
        "worker",
    )

    def __init__(self, app: "Stem", delivery: Delivery, envelope: Envelope, channel: Channel, worker: str) -> None:
        self.delivery = delivery
        self.worker = worker
        self.is_running = False  # while the handler has the word: then, and only then, may an interrupt be raised in it
        self._app = app
        self._envelope = envelope
        self._channel = channel
        self._logger: TaskLogger | None = None
        self.interrupter: Interrupter | None = None  # how an engine wants to be interrupted
        self.has_told = False  # the handler reports its progress itself
        self._notes: dict[str, Any] = {}
        self._turn: Lock | None = None  # for two who report: the handler, and a thread of its engine

    def __repr__(self) -> str:
        return f"TaskContext({self.id!r}, {self.name!r}, attempt={self.attempt})"

    @property
    def id(self) -> str:
        return self.delivery.lease.id

    @property
    def name(self) -> str:
        return self._envelope.name

    @property
    def queue(self) -> str:
        return self.delivery.queue

    @property
    def attempt(self) -> int:
        """0 for the first."""
        return self.delivery.attempt

    @property
    def max_retries(self) -> int:
        return self._envelope.max_retries

    @property
    def headers(self) -> dict[str, str]:
        return self._envelope.headers

    @property
    def meta(self) -> dict[str, Any]:
        return self._envelope.meta

    @property
    def tenant(self) -> str | None:
        return self._envelope.headers.get(TENANT_HEADER)

    @property
    def parent_id(self) -> str | None:
        """The task that enqueued this one, if a task did."""
        return self._noted(PARENT_ID)

    @property
    def root_id(self) -> str:
        """The task that all of this began with; this one itself where no task enqueued it."""
        return self._noted(ROOT_ID) or self.id

    @property
    def logger(self) -> "TaskLogger":
        """`stem.task.<name>`; its records carry task_id, task_name, queue, attempt and worker."""
        if self._logger is None:
            self._logger = TaskLogger(self)
        return self._logger

    def heartbeat(self) -> None:
        """Say that the task is alive. A good place to be told that it was revoked: raises TaskRevoked then."""
        self._channel.beat(None)

    def progress(self, fraction: float | None = None, message: str = "", **data: Any) -> None:
        """Say how far the task is; the latest word is `meta["progress"]` of its record. Raises InvalidTask, TaskRevoked."""
        self.has_told = True
        self._tell({"fraction": fraction, "message": message, **data})

    def extend_lease(self, seconds: float | timedelta | str) -> None:
        """Keep the task for at least this long, whatever becomes of renewals. Raises InvalidTask, TaskRevoked."""
        self._channel.extend(checked_seconds("The extension of a lease", seconds, above_zero=True))

    def retry(self, delay: float | timedelta | str | None = None, reason: str = "") -> NoReturn:
        """End this attempt as a failure worth a retry, due after `delay` (None: as the task's policy says).

        With no retries left it is a dead letter, as any failure. Raises InvalidTask for a delay that is none.
        """
        raise RetryRequested(None if delay is None else checked_seconds("A retry delay", delay), reason)

    @overload
    def enqueue(self, task: "Sender[P, R]", /, *args: P.args, **kwargs: P.kwargs) -> "TaskHandle[R]": ...
    @overload
    def enqueue(
        self,
        task: str,
        /,
        args: Mapping[str, Any] | None = None,
        *,
        check: bool = True,
        **options: Unpack[CallOptions],
    ) -> "TaskHandle[Any]": ...
    def enqueue(self, task: Any, /, *args: Any, **kwargs: Any) -> Any:
        """As `task.enqueue(…)` or `app.enqueue(name, args=…)`, over the connection of whoever runs this task."""
        if isinstance(task, str):
            return self._enqueue_named(task, *args, **kwargs)
        return task.enqueue_by(self._channel.push, self._app.link, task.bind(args, kwargs))

    def _enqueue_named(
        self, name: str, args: Mapping[str, Any] | None = None, *, check: bool = True, **options: Unpack[CallOptions]
    ) -> "TaskHandle[Any]":
        sender = self._app.sender(name, check=check).options(**options)
        arguments = sender.bind_object({} if args is None else args)
        return sender.enqueue_by(self._channel.push, self._app.link, arguments)

    # For the engine that runs it (stem.contracts.engine.Attempt)

    @property
    def key(self) -> str:
        return key_of(self._app, self.delivery)

    def note(self, **facts: Any) -> None:
        self._turn = self._turn or Lock()
        self._notes.update(facts)
        self._tell({"fraction": None, "message": ""})

    def report(self, fraction: float | None, message: str) -> None:
        if not self.has_told:
            self._tell({"fraction": fraction, "message": message})

    def interrupt(self, reason: BaseException, frame: FrameType | None) -> None:
        """Raises the reason, or leaves it to the engine to do so when it can."""
        if self.interrupter is None:
            raise reason
        self.interrupter(reason, frame)

    def _tell(self, progress: dict[str, Any]) -> None:
        told = _progress({**progress, **self._notes})
        with self._turn or nullcontext():
            self._channel.beat(told)

    def _noted(self, name: str) -> str | None:
        value = self._envelope.meta.get(name)
        return value if isinstance(value, str) else None


# What runs here and now, as seen from within it. Threads that a handler starts by itself do not see it.
running: ContextVar[TaskContext | None] = ContextVar("stem_running_task", default=None)


def current_task() -> TaskContext:
    """The task that runs here. Raises UsageError outside of one."""
    context = running.get()
    if context is None:
        raise UsageError(
            "No task is running here; call this from a task's function (in a test: enqueue it within stem.testing.eager)."
        )
    return context


def key_of(app: "Stem", delivery: Delivery) -> str:
    """Names a task on machines that several apps share; ids alone may be anybody's."""
    return f"{app.settings.namespace}/{delivery.name}/{delivery.lease.id}"


def lineage(context: TaskContext, meta: Mapping[str, Any]) -> dict[str, Any]:
    """The meta of a call that a running task makes; what the caller says of it itself wins."""
    return {PARENT_ID: context.id, ROOT_ID: context.root_id, **meta}


def _progress(progress: dict[str, Any]) -> dict[str, Any]:
    fraction, message = progress["fraction"], progress["message"]
    if fraction is not None and (
        isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction <= 1
    ):
        raise InvalidTask(f"The progress is {fraction!r}; give a fraction from 0 to 1, or None.")
    if not isinstance(message, str):
        raise InvalidTask(f"The message of a progress is of type {type(message).__name__}; give a string.")
    encoded = encode_json(progress, what="the progress", limit_bytes=sys.maxsize)
    if len(encoded) > MAX_PROGRESS_BYTES:
        raise InvalidTask(
            f"The JSON of the progress takes {len(encoded):,} bytes and the limit is {MAX_PROGRESS_BYTES:,}; "
            "keep the data elsewhere and report a reference."
        )
    # Decoded again: what travels is what a reader of the record will see.
    decoded: dict[str, Any] = msgspec.json.decode(encoded)
    return decoded


class TaskLogger(LoggerAdapter[Logger]):
    """Adds the task's fields to those that the caller gives."""

    def __init__(self, context: TaskContext) -> None:
        fields = {
            "task_id": context.id,
            "task_name": context.name,
            "queue": context.queue,
            "attempt": context.attempt,
            "worker": context.worker,
        }
        super().__init__(getLogger(f"stem.task.{context.name}"), fields)

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        return msg, {**kwargs, "extra": {**(self.extra or {}), **(kwargs.get("extra") or {})}}
