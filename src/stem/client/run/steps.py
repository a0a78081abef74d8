"""Durable steps of a running task: results that a later attempt finds again, sleeps, and events from outside."""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from stem.client.send.event_signing import event_name, opened
from stem.client.task.policy import MAX_SECONDS
from stem.client.task.policy import seconds as checked_seconds
from stem.contracts.steps import EVENT, Step
from stem.core.delivery import Lease
from stem.core.errors import EventTimeout, InvalidArguments, InvalidTask, TaskRevoked, UsageError
from stem.core.text.encode import encode_json

if TYPE_CHECKING:
    from stem.client.app import Stem

T = TypeVar("T")

log = logging.getLogger("stem.task")

MAX_NAME = 200
SLEEP, WAIT = "sleep:", "wait:"  # begin the names of steps that remember until when a task sleeps or waits
RESERVED = (EVENT, SLEEP, WAIT)


_step_name: ContextVar[str | None] = ContextVar("step", default=None)  # of the step whose function runs


@contextmanager
def _running(name: str, function: object) -> Iterator[None]:
    if not callable(function):
        raise InvalidTask(f"Step {name!r} is given {function!r}, which cannot be called; pass the function itself.")
    token = _step_name.set(name)
    try:
        yield
    finally:
        _step_name.reset(token)


def _refuse_inside_of_a_step() -> None:
    """A step that was recorded is skipped, and with it the waits inside: later ones would be taken for these."""
    if (name := _step_name.get()) is not None:
        raise UsageError(f"Step {name!r} sleeps or waits for an event; do that between steps.")


class Suspension(BaseException):
    """Raised to leave the handler until a time or an event. A BaseException, so that no `except Exception` swallows it."""

    def __init__(self, delay_seconds: float, event: str | None, reason: str) -> None:
        super().__init__(reason)
        self.delay_seconds = delay_seconds
        self.event = event


class StepChannel(Protocol):
    """How a running task reads and records its steps."""

    def steps(self, task_id: str) -> list[Step]:
        """The steps recorded so far. Raises StoreUnavailable."""

    def record_step(self, lease: Lease, name: str, payload: msgspec.Raw) -> bool:
        """Record a step; False if the lease was lost. Raises StoreUnavailable."""


class StepLog:
    """The steps of one attempt: those of earlier attempts, read on first use, and those that it adds."""

    def __init__(self, app: "Stem", lease: Lease, channel: StepChannel, expires_at: datetime | None) -> None:
        self._app = app
        self._expires_at = expires_at
        self._lease = lease
        self._channel = channel
        self._recorded: dict[str, msgspec.Raw] | None = None
        self._sleeps = 0
        self._used: set[str] = set()  # names of steps in this attempt

    def step(self, name: str, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        known = self.find(name)
        if known is not None:
            return msgspec.json.decode(known)
        with _running(name, function):
            value = function(*args, **kwargs)
        if isinstance(value, Coroutine):
            value.close()
            raise InvalidTask(f"Step {name!r} is an async function; call it with await ctx.astep(…).")
        return self.keep(name, value)

    async def astep(self, name: str, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        import asyncio

        known = await asyncio.to_thread(self.find, name)
        if known is not None:
            return msgspec.json.decode(known)
        with _running(name, function):
            value = function(*args, **kwargs)
            if isinstance(value, Awaitable):
                value = await value
        return await asyncio.to_thread(self.keep, name, value)

    def find(self, name: str) -> msgspec.Raw | None:
        """Return the recorded result. Raises InvalidTask for a name that cannot be one."""
        if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or not name.isprintable():
            raise InvalidTask(f"A step is named {name!r}; use 1 to {MAX_NAME} printable characters.")
        if name.startswith(RESERVED):
            raise InvalidTask(f"A step is named {name!r}; names that begin with {', '.join(RESERVED)} are Stem's own.")
        if name in self._used:
            raise InvalidTask(f"Two steps of one run are named {name!r}; give each a name of its own: f'{name}-{{n}}'.")
        self._used.add(name)
        return self._steps().get(name)

    def keep(self, name: str, value: Any) -> Any:
        """Record a result, and return it as a later attempt will find it: decoded from JSON."""
        payload = encode_json(value, what=f"the result of step {name!r}", limit_bytes=self._limit_bytes)
        self._record(name, payload)
        return msgspec.json.decode(payload)

    def sleep(self, duration: float | timedelta | str) -> None:
        """Return if the sleep is over; else raise Suspension. Sleeps are told apart by their order."""
        seconds = checked_seconds("The length of a sleep", duration)
        _refuse_inside_of_a_step()
        self._sleeps += 1
        left = self._left(f"{SLEEP}{self._sleeps}", seconds)
        if left > 0:
            self._check_expiry(left)
            raise Suspension(min(left, MAX_SECONDS), None, "sleeping")

    def wait_event(self, name: str, timeout: float | timedelta | str | None) -> Any:
        """Return the data of the event; raise Suspension until it was sent, or EventTimeout."""
        check_event_name(name)
        _refuse_inside_of_a_step()
        seconds = MAX_SECONDS if timeout is None else checked_seconds("The timeout of wait_event", timeout)
        connection = self._app.store_connection
        stored_as: str | None = event_name(name, connection.keyring)
        sent = self._steps().get(f"{EVENT}{stored_as}")
        if sent is not None:
            namespace = connection.settings.namespace
            data = opened(sent, self._lease.id, name, keyring=connection.keyring, namespace=namespace)
            if data is not None:
                return msgspec.json.decode(data)
            log.warning("event.refused id=%s event=%s: it is not signed with a known key", self._lease.id, name)
            stored_as = None  # a forged event must not wake the task again and again
        left = self._left(f"{WAIT}{name}", seconds)
        if left <= 0:
            raise EventTimeout(f"No event {name!r} was sent within {seconds:g} s.")
        self._check_expiry(left)
        raise Suspension(min(left, MAX_SECONDS), stored_as, f"waiting for event {name}")

    def _check_expiry(self, seconds: float) -> None:
        """Raises UsageError for a wait that the task would not outlive: a waiting task that expires is cancelled."""
        if self._expires_at is not None and self._app.store_connection.clock() + seconds > self._expires_at.timestamp():
            raise UsageError(
                f"The task expires at {self._expires_at.isoformat()}, before this wait is over; "
                "leave out expires for tasks that sleep or wait for events."
            )

    def _left(self, name: str, seconds: float) -> float:
        """Return how long is left of a span that begins when it is first asked for."""
        now = self._app.store_connection.clock()
        known = self._steps().get(name)
        if known is not None:
            return float(msgspec.json.decode(known)) - now
        self._record(name, msgspec.Raw(msgspec.json.encode(now + seconds)))
        return seconds

    def _steps(self) -> dict[str, msgspec.Raw]:
        if self._recorded is None:
            self._recorded = {step.name: step.payload for step in self._channel.steps(self._lease.id)}
        return self._recorded

    def _record(self, name: str, payload: msgspec.Raw) -> None:
        if not self._channel.record_step(self._lease, name, payload):
            raise TaskRevoked("the lease was lost")
        self._steps()[name] = payload

    @property
    def _limit_bytes(self) -> int:
        return self._app.settings.max_result_bytes or self._app.settings.max_args_bytes


def check_event_name(name: str) -> str:
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise InvalidArguments(f"An event is named {name!r}; use 1 to {MAX_NAME} printable characters.")
    return name


def refuse_at_most_once(app: "Stem", name: str) -> None:
    """Raises UsageError in a task that runs at most once: it could not be started again after the wait."""
    task = app.tasks.get(name)
    if task is not None and task.definition.at_most_once:
        raise UsageError(f"{name} runs at most once and cannot sleep or wait for an event; leave out at_most_once.")
