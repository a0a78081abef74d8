"""The context of a running task: its facts, progress, heartbeats and follow-up calls."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from datetime import timedelta
from threading import Lock
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

import msgspec

from stem.client.run.logger import TaskLogger
from stem.client.run.steps import StepChannel, StepLog, refuse_at_most_once
from stem.client.task.options import CallOptions
from stem.client.task.policy import check_max_retries
from stem.client.task.policy import seconds as checked_seconds
from stem.core.decisions.routing import TENANT_HEADER
from stem.core.delivery import Delivery
from stem.core.envelope import Envelope, Push, Receipt
from stem.core.errors import InvalidTask, UsageError
from stem.core.prerequisites import VALUE_OF
from stem.core.text.encode import encode_json

if TYPE_CHECKING:
    from stem.client.app import Stem
    from stem.client.canvas.canvas import Canvas
    from stem.client.canvas.handle import CanvasHandle
    from stem.client.canvas.values import StoredValue
    from stem.client.send.handle import TaskHandle
    from stem.client.send.sender import Sender
    from stem.client.store_connection import StoreConnection
    from stem.contracts.engine import Interrupter

P = ParamSpec("P")
R = TypeVar("R")

PARENT_ID, ROOT_ID = "parentId", "rootId"  # in an envelope's meta
CANVAS_ID, JOIN_ID = "canvasId", "joinId"  # the canvas that a task is part of, and the join of its group
CHAIN_ID = "chainId"  # the chain that it is a link of: the id of the chain's last link
ENDS_CHAIN = "endsChain"  # the chain that it ended early
MAX_PROGRESS_BYTES = 2048
NO_META: Mapping[str, Any] = {}


StoppedBy = Literal["", "revoke", "worker"]


class Channel(StepChannel, Protocol):
    """How a running task reaches the worker (or the test) that runs it."""

    def beat(self, progress: dict[str, Any] | None) -> None:
        """Send a heartbeat, with progress or without (None). May raise TaskRevoked."""

    def extend(self, seconds: float) -> None:
        """Keep the lease for at least this long from now. May raise TaskRevoked."""

    def push(self, pushes: Sequence[Push]) -> list[Receipt]:
        """Push calls through a connection that is already open."""

    def stopped_by(self) -> StoppedBy:
        """Whether the run was asked to end, and how it is settled then unless it succeeds: as revoked, or as the worker
        decides."""

    def records(self, task_ids: Sequence[str]) -> "Mapping[str, StoredValue]":
        """Read what the values of these tasks need, past their retention as well. Raises StoreUnavailable."""


class RetryRequested(BaseException):
    """Raised by `ctx.retry` to leave the handler. A BaseException, so that no `except Exception` swallows it."""

    def __init__(self, delay_seconds: float | None, reason: str, max_retries: int | None = None) -> None:
        super().__init__(reason)
        self.delay_seconds = delay_seconds
        self.max_retries = max_retries


class ReplaceRequested(BaseException):
    """Raised by `ctx.replace` to leave the handler. `by` is the task whose value becomes that of the replaced one."""

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.by = by


class ChainEndRequested(BaseException):
    """Raised by `ctx.end_chain` to leave the handler."""

    def __init__(self, value: Any) -> None:
        super().__init__("The chain ends here.")
        self.value = value


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
        "_step_log",
        "_turn",
        "delivery",
        "ending_meta",
        "follow_ups",
        "has_told",
        "interrupter",
        "is_running",
        "worker",
    )

    def __init__(self, app: "Stem", delivery: Delivery, envelope: Envelope, channel: Channel, worker: str) -> None:
        self.delivery = delivery
        self.worker = worker
        self.is_running = False  # an interrupt may be raised only while the handler runs
        self._app = app
        self._envelope = envelope
        self._channel = channel
        self._logger: TaskLogger | None = None
        self.interrupter: Interrupter | None = None  # how the engine is interrupted
        self.has_told = False  # the handler reports its progress itself
        self._notes: dict[str, Any] = {}
        self._step_log: StepLog | None = None
        self.follow_ups: tuple[Push, ...] = ()  # pushed together with a success
        self.ending_meta: Mapping[str, Any] = NO_META  # added to the record by a success
        self._turn: Lock | None = None  # two threads report: the handler's, and one of its engine

    def __repr__(self) -> str:
        return f"TaskContext({self.id!r}, {self.name!r}, attempt={self.attempt})"

    @property
    def store_connection(self) -> "StoreConnection":
        """For Stem's own parts."""
        return self._app.store_connection

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
        """The first task of the chain; this one if no task enqueued it."""
        return self._noted(ROOT_ID) or self.id

    @property
    def logger(self) -> TaskLogger:
        """`stem.task.<name>`; its records carry task_id, task_name, queue, attempt, worker and, if it is traced, trace_id."""
        if self._logger is None:
            self._logger = TaskLogger(self)
        return self._logger

    def heartbeat(self) -> None:
        """Report that the task is alive. Raises TaskRevoked if it was revoked."""
        self._channel.beat(None)

    def progress(self, fraction: float | None = None, message: str = "", **data: Any) -> None:
        """Report progress; the latest is `meta["progress"]` of the record. Raises InvalidTask, TaskRevoked."""
        self.has_told = True
        self._tell({"fraction": fraction, "message": message, **data})

    def extend_lease(self, seconds: float | timedelta | str) -> None:
        """Extend the lease to at least this long from now, even if renewals fail. Raises InvalidTask, TaskRevoked."""
        self._channel.extend(checked_seconds("The extension of a lease", seconds, above_zero=True))

    def retry(
        self, delay: float | timedelta | str | None = None, reason: str = "", *, max_retries: int | None = None
    ) -> NoReturn:
        """End this attempt as a failure worth a retry, due after `delay` (None: as the task's policy says).

        With no retries left it is a dead letter, as any failure; `max_retries` counts here instead of the task's. Raises
        InvalidTask for a delay or a number that is none.
        """
        limit = None if max_retries is None else check_max_retries(max_retries)
        raise RetryRequested(None if delay is None else checked_seconds("A retry delay", delay), reason, limit)

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call the function and record its result under this name; a later attempt of the task returns the result without
        calling it again. The result must be JSON and is returned as it was recorded: a tuple comes back as a list.

        A crash after the call and before its result is recorded repeats the call, so make it idempotent. Raises InvalidTask
        for a bad name, InvalidArguments for a result that is no JSON, TaskRevoked, StoreUnavailable.
        """
        return self._steps.step(name, function, args, kwargs)

    async def astep(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """As `step`, for an async function."""
        return await self._steps.astep(name, function, args, kwargs)

    def sleep(self, duration: float | timedelta | str) -> None:
        """Sleep without holding a slot: the attempt ends here and the task begins again later, without spending an attempt. It
        then skips what `step` has recorded, and returns from here. Raises InvalidTask, UsageError, StoreUnavailable."""
        refuse_at_most_once(self._app, self.name)
        self._steps.sleep(duration)

    async def asleep(self, duration: float | timedelta | str) -> None:
        import asyncio

        refuse_at_most_once(self._app, self.name)
        await asyncio.to_thread(self._steps.sleep, duration)

    def wait_event(self, name: str, timeout: float | timedelta | str | None = None) -> Any:
        """Return the data of an event that `app.send_event(id, name, data)` sends, now, earlier or later. Waits as `sleep`
        does. Raises EventTimeout if none was sent in time; InvalidArguments, InvalidTask, UsageError, StoreUnavailable."""
        refuse_at_most_once(self._app, self.name)
        return self._steps.wait_event(name, timeout)

    async def await_event(self, name: str, timeout: float | timedelta | str | None = None) -> Any:
        import asyncio

        refuse_at_most_once(self._app, self.name)
        return await asyncio.to_thread(self._steps.wait_event, name, timeout)

    @property
    def _steps(self) -> StepLog:
        if self._step_log is None:
            self._step_log = StepLog(self._app, self.delivery.lease, self._channel, self._envelope.expires_at)
        return self._step_log

    def replace(self, canvas: "Canvas[Any]") -> NoReturn:
        """End this attempt and put a signature or canvas in the place of the task: what waits for the task waits for it, and
        gets its value. Stored with the end of the attempt. Raises UsageError, InvalidTask."""
        pushes, by = _composed(canvas).replacement(self)
        self.follow_ups += tuple(pushes)
        self.ending_meta = {**self.ending_meta, VALUE_OF: by}
        raise ReplaceRequested(by)

    def spawn(self, *canvases: "Canvas[Any]") -> "list[TaskHandle[Any]]":
        """Add members to the group that the task is part of: what follows the group waits for them as well, and gets their
        values behind the others. Stored with the success of this attempt. Raises UsageError, InvalidTask."""
        join_id = self._noted(JOIN_ID)
        if join_id is None:
            raise UsageError(
                f"Task {self.id} is no member of a group, so nothing can be added to it; use ctx.enqueue(…)."
            )
        handles: list[TaskHandle[Any]] = []
        for canvas in canvases:
            pushes, added = _composed(canvas).spawned(self, join_id)
            self.follow_ups += tuple(pushes)
            handles += added
        return handles

    def end_chain(self, value: Any = None) -> NoReturn:
        """End this attempt as a success with this value, and the chain that the task is part of with it: later links are not
        run, and the value is that of the chain. Raises UsageError."""
        chain_id = self._noted(CHAIN_ID)
        if chain_id is None:
            raise UsageError(f"Task {self.id} is no part of a chain, so none can be ended; return the value.")
        self.ending_meta = {**self.ending_meta, ENDS_CHAIN: chain_id}
        raise ChainEndRequested(value)

    @overload
    def enqueue(self, canvas: "Canvas[R]", /, *args: Any, **kwargs: Any) -> "CanvasHandle[R]": ...
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
        """Enqueue like `task.enqueue(…)`, `canvas.submit(…)` or `app.enqueue(name, args=…)`, over the worker's
        connection."""
        if isinstance(task, str):
            return self._enqueue_named(task, *args, **kwargs)
        return task.enqueue_by(self._channel.push, self._app.store_connection, task.bind(args, kwargs))

    def _enqueue_named(
        self, name: str, args: Mapping[str, Any] | None = None, *, check: bool = True, **options: Unpack[CallOptions]
    ) -> "TaskHandle[Any]":
        sender = self._app.sender(name, check=check).options(**options)
        arguments = sender.bind_object({} if args is None else args)
        return sender.enqueue_by(self._channel.push, self._app.store_connection, arguments)

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
        """Raise the reason now, or let the engine raise it when it can."""
        if self.interrupter is None:
            raise reason
        self.interrupter(reason, frame)

    def _tell(self, progress: dict[str, Any]) -> None:
        checked = _progress({**progress, **self._notes})
        with self._turn or nullcontext():
            self._channel.beat(checked)

    def _noted(self, name: str) -> str | None:
        value = self._envelope.meta.get(name)
        return value if isinstance(value, str) else None


# The task that runs here. Threads that a handler starts itself do not see it.
running: ContextVar[TaskContext | None] = ContextVar("stem_running_task", default=None)


def current_task() -> TaskContext:
    """Return the context of the task that runs here. Raises UsageError outside of a task."""
    context = running.get()
    if context is None:
        raise UsageError(
            "No task is running here; call this from a task's function (in a test: enqueue it within stem.testing.eager)."
        )
    return context


def no_signature(part: Any) -> InvalidTask:
    hint = f"; write {part.__name__}.s(…)" if hasattr(part, "si") and hasattr(part, "__name__") else ""
    return InvalidTask(f"A canvas is made of signatures, and this is of type {type(part).__name__}{hint}.")


def _composed(canvas: Any) -> "Canvas[Any]":
    """Raises InvalidTask. A canvas is known by what it can do, because its class is built on this one."""
    if not hasattr(canvas, "replacement"):
        raise no_signature(canvas)
    return cast("Canvas[Any]", canvas)


def key_of(app: "Stem", delivery: Delivery) -> str:
    """Return a key that identifies a task on machines shared by several apps."""
    return f"{app.settings.namespace}/{delivery.name}/{delivery.lease.id}"


def lineage(context: TaskContext, meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the meta of a call made by a running task. Values that the caller gave win."""
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
