"""A task that was enqueued: ask for its state, wait for its end, take its value."""

import logging
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from stem.client.hints import OF_HANDLES, missing
from stem.client.link import Link
from stem.core.envelope import check_id
from stem.core.errors import RemoteTraceback, StemError, TaskCancelled, TaskFailed, TaskNotFound, WaitTimeout
from stem.core.lifecycle import State
from stem.core.record import TaskRecord
from stem.core.routing import is_of

if TYPE_CHECKING:
    from stem.control.revoking import Revoked

R = TypeVar("R")

log = logging.getLogger("stem.client")

SILENT_SECONDS = 5.0  # a wait that takes longer looks once whether anybody serves the queue
RECHECK_SECONDS = 60.0  # a wait without end looks this often whether the task is still known


class TaskHandle(Generic[R]):
    """Good in any process that reaches the store. `created` is False where an earlier task took the enqueue's place."""

    __slots__ = ("_decode", "_link", "created", "id")

    def __init__(
        self, link: Link, task_id: str, decode: Callable[[TaskRecord], R], *, created: bool | None = None
    ) -> None:
        self.id = check_id(task_id)
        self.created = created
        self._link = link
        self._decode = decode

    def __repr__(self) -> str:
        return f"TaskHandle({self.id!r})"

    def __eq__(self, other: object) -> bool:
        """Of the same task in the same store, whichever call returned them."""
        return isinstance(other, TaskHandle) and (self.id, self._place) == (other.id, other._place)

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def _place(self) -> tuple[str, str]:
        settings = self._link.settings
        return settings.broker_url, settings.namespace

    def status(self) -> TaskRecord:
        """The record as it is now. Raises TaskNotFound."""
        record = self._link.store.results.get([self.id]).get(self.id)
        if record is None:
            raise TaskNotFound(f"There is no task {self.id}; it was never enqueued here, or its result has expired.")
        return record

    def get(self, timeout: float | None = None) -> R:
        """The returned value. Raises TaskFailed, TaskCancelled, WaitTimeout or (at once) TaskNotFound."""
        return self._value(self.wait(timeout))

    def wait(self, timeout: float | None = None) -> TaskRecord:
        """The record once the task has ended, however it ended. Raises WaitTimeout or (at once) TaskNotFound."""
        self._link.before_wait()
        ends_at = time.monotonic() + self._patience(timeout)
        pause_seconds = SILENT_SECONDS
        while not (record := self.status()).is_terminal:
            left = ends_at - time.monotonic()
            if not left > 0:
                raise self._too_late(record, timeout)
            ended = self._link.store.results.wait([self.id], timeout_seconds=min(left, pause_seconds))
            if self.id in ended:
                return ended[self.id]
            if pause_seconds == SILENT_SECONDS < left:
                self._warn_if_unserved()
            pause_seconds = RECHECK_SECONDS
        return record

    def revoke(self, *, terminate: bool = False, reason: str = "") -> "Revoked":
        """Do not run it, now or later; with `terminate`, stop it if it runs. Durable when it returns. What else can be
        said of a revoke: `app.control.revoke`."""
        from stem.client.control import Control

        return Control(self._link).revoke(self.id, terminate=terminate, reason=reason)

    async def arevoke(self, *, terminate: bool = False, reason: str = "") -> "Revoked":
        from stem.client.control import Control

        return await Control(self._link).arevoke(self.id, terminate=terminate, reason=reason)

    async def astatus(self) -> TaskRecord:
        import asyncio

        return await asyncio.to_thread(self.status)

    async def aget(self, timeout: float | None = None) -> R:
        return self._value(await self.await_ended(timeout))

    async def await_ended(self, timeout: float | None = None) -> TaskRecord:
        """As `wait`. Any number of these share one thread."""
        import asyncio

        patience = self._patience(timeout)
        record: TaskRecord | None = None
        try:
            # Without patience there is still one look, as long as the store takes for it.
            async with asyncio.timeout(patience if 0 < patience < float("inf") else None):
                record = await asyncio.to_thread(self._caught_up)
                if record.is_terminal:
                    return record
                if not patience > 0:
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
        self._link.before_wait()
        return self.status()

    async def _watched(self) -> TaskRecord:
        import asyncio

        ended = asyncio.ensure_future(self._link.watcher.ended(self.id))
        try:
            await asyncio.wait({ended}, timeout=SILENT_SECONDS)
            if not ended.done():
                await asyncio.to_thread(self._warn_if_unserved)
            return await ended
        finally:
            ended.cancel()

    def _warn_if_unserved(self) -> None:
        with suppress(StemError):  # the wait itself will say what is wrong with the store
            if (sentence := self._unserved(self.status())) is not None:
                log.warning("Task %s waits, and %s", self.id, sentence)

    def _unserved(self, record: TaskRecord | None) -> str | None:
        """A sentence where the task waits in a queue that no live worker serves."""
        if record is None or record.stage != 0:
            return None
        pulses = self._link.store.heartbeats.all()
        if any(is_of(queue, record.queue) for pulse in pulses for queue in pulse.heartbeat.queues):
            return None
        return f"no worker serves queue {record.queue!r}; start one with: stem worker start --app MODULE:NAME"

    def _patience(self, timeout: float | None) -> float:
        longest = self._link.longest_wait_seconds
        limits = [limit for limit in (timeout, longest) if limit is not None]
        return min(limits, default=float("inf"))

    def _too_late(self, record: TaskRecord | None, timeout: float | None) -> WaitTimeout:
        state = f" and is {record.state}" if record is not None else ""
        if self._link.longest_wait_seconds is not None:
            return WaitTimeout(
                f"Task {self.id} has not ended{state}; in eager mode advance the clock to run what is due."
            )
        unserved = None
        with suppress(StemError):
            unserved = self._unserved(record)
        why = unserved or "the task itself is unaffected"
        return WaitTimeout(f"Task {self.id} has not ended within {timeout or 0:g} s{state}; {why}.")

    def _value(self, record: TaskRecord) -> R:
        if record.state is not State.SUCCEEDED:
            raise failure_of(record)
        return self._decode(record)


def failure_of(record: TaskRecord) -> TaskFailed | TaskCancelled:
    """The error that stands for a task that ended without a value."""
    said = f"{record.error.type}: {record.error.message}" if record.error is not None else "no reason recorded"
    if record.state is State.CANCELLED:
        return TaskCancelled(f"Task {record.id} ({record.name}) was cancelled: {said}", record)
    attempts = "1 attempt" if record.attempt == 0 else f"{record.attempt + 1} attempts"
    failure = TaskFailed(f"Task {record.id} ({record.name}) failed after {attempts}: {said}", record)
    if record.error is not None and record.error.stack:
        failure.__cause__ = RemoteTraceback(record.error.stack)
    return failure
