"""A handle to an enqueued task: its status, waiting for its end, its value."""

import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import msgspec

from stem.client.canvas.values import StoredValue, Values, stored_value
from stem.client.store_connection import StoreConnection
from stem.client.task.hints import OF_HANDLES, missing
from stem.core.decisions.routing import is_queue_of_worker
from stem.core.envelope import check_id
from stem.core.errors import RemoteTraceback, StemError, TaskCancelled, TaskFailed, TaskNotFound, WaitTimeout
from stem.core.lifecycle import State
from stem.core.prerequisites import JOINS, VALUE_OF, first_cause
from stem.core.record import TaskRecord

if TYPE_CHECKING:
    from stem.control.revoking import RevokeResult

R = TypeVar("R")

log = logging.getLogger("stem.client")

SILENT_SECONDS = 5.0  # after which a wait checks once whether a worker serves the queue
RECHECK_SECONDS = 60.0  # how often an endless wait checks that the task still exists


class TaskHandle(Generic[R]):
    """Refers to a task by id, in any process that reaches the store. `created` is False if the enqueue found a duplicate."""

    __slots__ = ("_decode", "_store_connection", "created", "id")

    def __init__(
        self,
        store_connection: StoreConnection,
        task_id: str,
        decode: Callable[[TaskRecord], R],
        *,
        created: bool | None = None,
    ) -> None:
        self.id = check_id(task_id)
        self.created = created
        self._store_connection = store_connection
        self._decode = decode

    def __repr__(self) -> str:
        return f"TaskHandle({self.id!r})"

    def __eq__(self, other: object) -> bool:
        """Equal handles name the same task in the same store."""
        return isinstance(other, TaskHandle) and (self.id, self._place) == (other.id, other._place)

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def _place(self) -> tuple[str, str]:
        settings = self._store_connection.settings
        return settings.broker_url, settings.namespace

    def status(self) -> TaskRecord:
        """Return the current record. Raises TaskNotFound."""
        record = self._store_connection.store.results.get([self.id]).get(self.id)
        if record is None:
            raise TaskNotFound(f"There is no task {self.id}; it was never enqueued here, or its result has expired.")
        return record

    def get(self, timeout: float | None = None) -> R:
        """Wait for the returned value. Raises TaskFailed, TaskCancelled, WaitTimeout or (at once) TaskNotFound."""
        return self.value_of(self.wait(timeout))

    def wait(self, timeout: float | None = None) -> TaskRecord:
        """Wait until the task has ended, and return its record. Raises WaitTimeout or (at once) TaskNotFound."""
        self._store_connection.before_wait()
        ends_at = time.monotonic() + self._wait_limit(timeout)
        pause_seconds = SILENT_SECONDS
        while not (record := self.status()).is_terminal:
            left = ends_at - time.monotonic()
            if not left > 0:
                raise self._too_late(record, timeout)
            ended = self._store_connection.store.results.wait([self.id], timeout_seconds=min(left, pause_seconds))
            if self.id in ended:
                return ended[self.id]
            if pause_seconds == SILENT_SECONDS < left:
                self._warn_if_unserved()
            pause_seconds = RECHECK_SECONDS
        return record

    def value_of(self, record: TaskRecord) -> R:
        """Return the value of a record that `wait` returned. Raises TaskFailed, TaskCancelled."""
        if VALUE_OF not in record.meta and record.name not in JOINS:
            if record.state is not State.SUCCEEDED:
                raise failure_of(self._first_cause(record))
            return self._decode(record)
        stored = stored_value(record)
        if not stored.has_value:
            raise failure_of(self._first_cause(record))
        # Its value is made of those of others: it is a join, was replaced, or its chain was ended early.
        return self._decode(msgspec.structs.replace(record, payload=Values(self._stored).of(record.id)))

    def revoke(self, *, terminate: bool = False, reason: str = "") -> "RevokeResult":
        """Revoke the task: it will not start, and with `terminate` it is stopped if it runs. Durable when this returns.
        `app.control.revoke` has more options."""
        from stem.client.control import Control

        return Control(self._store_connection).revoke(self.id, terminate=terminate, reason=reason)

    async def arevoke(self, *, terminate: bool = False, reason: str = "") -> "RevokeResult":
        from stem.client.control import Control

        return await Control(self._store_connection).arevoke(self.id, terminate=terminate, reason=reason)

    def send_event(self, name: str, data: Any = None) -> None:
        """Send an event to the task, as `app.send_event` does. Raises TaskNotFound, TaskEnded, InvalidArguments."""
        from stem.client.send.events import send_event

        send_event(self._store_connection, self.id, name, data)

    async def astatus(self) -> TaskRecord:
        import asyncio

        return await asyncio.to_thread(self.status)

    async def aget(self, timeout: float | None = None) -> R:
        record = await self.await_ended(timeout)
        if VALUE_OF in record.meta or record.name in JOINS or first_cause(record.error) is not None:
            import asyncio

            return await asyncio.to_thread(self.value_of, record)  # it reads other records
        return self.value_of(record)

    async def await_ended(self, timeout: float | None = None) -> TaskRecord:
        """Wait like `wait`. All such waits of a process share one thread."""
        import asyncio

        limit = self._wait_limit(timeout)
        record: TaskRecord | None = None
        try:
            # A limit of 0 still allows one look, as long as the store takes for it.
            async with asyncio.timeout(limit if 0 < limit < float("inf") else None):
                record = await asyncio.to_thread(self._caught_up)
                if record.is_terminal:
                    return record
                if not limit > 0:
                    raise self._too_late(record, timeout)
                return await self._watched()
        except TimeoutError as error:
            if isinstance(error, WaitTimeout):
                raise
            raise self._too_late(record, timeout) from None

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A handle holds its app's store and cannot be pickled; send its id, and ask app.handle(id) there."
        )

    def __await__(self) -> Generator[Any, None, R]:
        return self.aget().__await__()

    if not TYPE_CHECKING:  # a type checker would take any name

        def __getattr__(self, name: str) -> Any:
            raise missing(self, name, OF_HANDLES)

    def _caught_up(self) -> TaskRecord:
        self._store_connection.before_wait()
        return self.status()

    async def _watched(self) -> TaskRecord:
        import asyncio

        ended = asyncio.ensure_future(self._store_connection.watcher.ended(self.id))
        try:
            await asyncio.wait({ended}, timeout=SILENT_SECONDS)
            if not ended.done():
                await asyncio.to_thread(self._warn_if_unserved)
            return await ended
        finally:
            ended.cancel()

    def _warn_if_unserved(self) -> None:
        with suppress(StemError):  # the wait itself will say what is wrong with the store
            if (sentence := self.unserved(self.status())) is not None:
                log.warning("task.unserved id=%s: %s", self.id, sentence)

    def unserved(self, record: TaskRecord | None) -> str | None:
        """Return a sentence if the task waits in a queue that no live worker serves."""
        if record is None or record.stage != 0:
            return None
        pulses = self._store_connection.store.heartbeats.all()
        if any(pulse.heartbeat.serves(record.queue) for pulse in pulses):
            return None
        if is_queue_of_worker(record.queue):
            return f"the worker of queue {record.queue!r} is not running"
        return f"no worker serves queue {record.queue!r}; start one with: stem worker start --app MODULE:NAME"

    def _wait_limit(self, timeout: float | None) -> float:
        longest = self._store_connection.longest_wait_seconds
        limits = [limit for limit in (timeout, longest) if limit is not None]
        return min(limits, default=float("inf"))

    def _too_late(self, record: TaskRecord | None, timeout: float | None) -> WaitTimeout:
        state = f" and is {record.state}" if record is not None else ""
        if self._store_connection.longest_wait_seconds is not None:
            return WaitTimeout(
                f"Task {self.id} has not ended{state}; in eager mode advance the clock to run what is due."
            )
        unserved = None
        with suppress(StemError):
            unserved = self.unserved(record)
        why = unserved or "the task itself is unaffected"
        return WaitTimeout(f"Task {self.id} has not ended within {timeout or 0:g} s{state}; {why}.")

    def _first_cause(self, record: TaskRecord) -> TaskRecord:
        """The record of the task whose failure cancelled this one, if it still has failed."""
        cause = first_cause(record.error)
        if cause is None:
            return record
        found = self._store_connection.store.results.get([cause], past_retention=True).get(cause)
        return found if found is not None and found.state in (State.FAILED, State.CANCELLED) else record

    def _stored(self, task_ids: Sequence[str]) -> dict[str, StoredValue]:
        found = self._store_connection.store.results.get(task_ids, past_retention=True)
        return {id: stored_value(each) for id, each in found.items()}


def failure_of(record: TaskRecord) -> TaskFailed | TaskCancelled:
    """Return the exception for a task that ended without a value."""
    said = f"{record.error.type}: {record.error.message}" if record.error is not None else "no reason recorded"
    if record.state is State.CANCELLED:
        return TaskCancelled(f"Task {record.id} ({record.name}) was cancelled: {said}", record)
    attempts = "1 attempt" if record.attempt == 0 else f"{record.attempt + 1} attempts"
    failure = TaskFailed(f"Task {record.id} ({record.name}) failed after {attempts}: {said}", record)
    if record.error is not None and record.error.stack:
        failure.__cause__ = RemoteTraceback(record.error.stack)
    return failure
