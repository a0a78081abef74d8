"""A handle to a submitted canvas: its status, its value, revoke and resume."""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import msgspec

from stem.client.canvas.shape import CanvasShape, members_found, read_shape
from stem.client.canvas.values import CHUNK, PASSED, Values, stored_value
from stem.client.send.handle import TaskHandle, failure_of
from stem.client.store_connection import StoreConnection
from stem.core.delivery import DeadFilter
from stem.core.errors import TaskCancelled, TaskFailed, WaitTimeout
from stem.core.lifecycle import State
from stem.core.prerequisites import JOINS, VALUE_OF, first_cause, spawned
from stem.core.record import TaskError, TaskRecord

if TYPE_CHECKING:
    from stem.client.canvas.tree import TreeLine

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

MAX_FAILURES = 100  # that a status lists
LOOK_SECONDS = 1.0  # how long a wait for a canvas that goes on after a resume sleeps at most


class FailedMember(msgspec.Struct, frozen=True):
    id: str
    name: str
    error: TaskError | None


class CanvasStatus(msgspec.Struct, frozen=True):
    """How far a canvas is. `counts` are its tasks by state, without joins and callbacks aside; `failures` lists the first
    members that failed."""

    id: str
    name: str | None
    state: State
    total: int
    counts: dict[State, int]
    failures: list[FailedMember]

    @property
    def is_terminal(self) -> bool:
        return self.state in (State.SUCCEEDED, State.FAILED, State.CANCELLED)


class CanvasHandle(Generic[R_co]):
    """Refers to a canvas by id, in any process that reaches the store."""

    __slots__ = ("_decode", "_root", "_store_connection", "id")

    def __init__(
        self,
        store_connection: StoreConnection,
        canvas_id: str,
        decode: Callable[[msgspec.Raw], Any] = msgspec.json.decode,
    ) -> None:
        self._root: TaskHandle[Any] = TaskHandle(store_connection, canvas_id, lambda record: record)
        self.id = canvas_id
        self._store_connection = store_connection
        self._decode = decode

    def __repr__(self) -> str:
        return f"CanvasHandle({self.id!r})"

    def status(self) -> CanvasStatus:
        """Count the tasks by state. Reads the record of each. Raises TaskNotFound."""
        root, shape = self._shape()
        return self._status(root, shape, self._records(self._members(shape)))

    def tree(self) -> "tuple[CanvasStatus, list[TreeLine]]":
        """The status, and the canvas as a tree with what became of each task. Raises TaskNotFound."""
        from stem.client.canvas.tree import tree_lines  # here: only people look at it

        root, shape = self._shape()
        members = list(self._members(shape))
        records = {record.id: record for record in self._records([*members, *shape.tasks(aside=True)])}
        status = self._status(root, shape, (records[id] for id in members if id in records))
        has_grown = any(_has_grown(shape, record) for record in records.values())
        return status, tree_lines(shape, records, self._added(root, shape) if has_grown else ())

    def get(self, timeout: float | None = None) -> R_co:
        """Wait for the value. Raises TaskFailed or TaskCancelled with the first cause, WaitTimeout or (at once)
        TaskNotFound."""
        return self._value(self.wait(timeout))

    def wait(self, timeout: float | None = None) -> TaskRecord:
        """Wait until the canvas has ended, and return the record of its join. Raises WaitTimeout or (at once)
        TaskNotFound."""
        ends_at = None if timeout is None else time.monotonic() + timeout
        while True:
            record = self._root.wait(None if ends_at is None else max(0.0, ends_at - time.monotonic()))
            going = self._still_going(record)
            if not going:
                return record
            left = LOOK_SECONDS if ends_at is None else ends_at - time.monotonic()
            if self._store_connection.longest_wait_seconds is not None or left <= 0:
                raise WaitTimeout(f"Canvas {self.id} goes on and has not ended; the canvas itself is unaffected.")
            self._store_connection.store.results.wait(going, timeout_seconds=min(left, LOOK_SECONDS))

    def revoke(self, *, terminate: bool = False, reason: str = "") -> list[str]:
        """Revoke all tasks that have not ended, with `terminate` those that run as well; returns their ids. Durable when it
        returns."""
        from stem.client.control import Control

        # What would follow first, so that nothing is released meanwhile. The canvas itself ends with them.
        records = reversed(self._all_records(self._root.status()))
        revoked = [record.id for record in records if not record.is_terminal and record.name not in JOINS]
        control = Control(self._store_connection)
        for start in range(0, len(revoked), CHUNK):
            control.revoke(*revoked[start : start + CHUNK], terminate=terminate, reason=reason)
        return revoked

    def resume(self) -> list[str]:
        """Replay the dead letters among its tasks, and return their ids; what they had held up runs after them."""
        ids = [record.id for record in self._all_records(self._root.status()) if record.state is State.FAILED]
        replayed: list[str] = []
        for start in range(0, len(ids), CHUNK):
            where = DeadFilter(ids=tuple(ids[start : start + CHUNK]))
            replayed += self._store_connection.store.deadletters.replay(where, limit=CHUNK)
        return replayed

    async def astatus(self) -> CanvasStatus:
        return await _in_a_thread(self.status)

    async def aget(self, timeout: float | None = None) -> R_co:
        return await _in_a_thread(self._value, await self.await_ended(timeout))

    async def await_ended(self, timeout: float | None = None) -> TaskRecord:
        """Wait like `wait`."""
        ends_at = None if timeout is None else time.monotonic() + timeout
        record = await self._root.await_ended(timeout)
        if not await _in_a_thread(self._still_going, record):
            return record
        return await _in_a_thread(self.wait, None if ends_at is None else max(0.0, ends_at - time.monotonic()))

    async def arevoke(self, *, terminate: bool = False, reason: str = "") -> list[str]:
        return await _in_a_thread(self.revoke, terminate=terminate, reason=reason)

    async def aresume(self) -> list[str]:
        return await _in_a_thread(self.resume)

    def __await__(self) -> Generator[Any, None, R_co]:
        return self.aget().__await__()

    def _value(self, record: TaskRecord) -> R_co:
        if record.state is not State.SUCCEEDED:
            raise self._failure(record)
        value: R_co = self._decode(Values(self._stored).of(self.id))
        return value

    def _stored(self, ids: Iterable[str]) -> dict[str, Any]:
        found = self._store_connection.store.results.get(list(ids), past_retention=True)
        return {id: stored_value(record) for id, record in found.items()}

    def _failure(self, record: TaskRecord) -> TaskFailed | TaskCancelled:
        """The failure of the first cause."""
        cause = first_cause(record.error)
        found = None if cause is None else self._get(cause)
        if found is None or found.state not in (State.FAILED, State.CANCELLED):
            # It was mended, and something else has failed since.
            found = next(
                (each for each in self._all_records(record, with_aside=False) if each.state is State.FAILED), found
            )
        return failure_of(found if found is not None and found.state is not State.SUCCEEDED else record)

    def _still_going(self, record: TaskRecord) -> list[str]:
        """The tasks to wait for, if the canvas goes on although it counts as cancelled: what had failed was replayed."""
        cause = first_cause(record.error)
        if record.state is not State.CANCELLED or cause is None:
            return []
        found = self._get(cause)
        if found is None or found.state in (State.FAILED, State.CANCELLED):
            return []
        if not found.is_terminal:
            return [cause]
        going = [each.id for each in self._all_records(record, with_aside=False) if not each.is_terminal]
        # Between its success and this look the whole may have ended.
        return going[:CHUNK] or ([self.id] if self._root.status().state is State.SUCCEEDED else [])

    def _shape(self) -> tuple[TaskRecord, CanvasShape]:
        root = self._root.status()
        return root, read_shape(self._store_connection.store, root)

    def _status(self, root: TaskRecord, shape: CanvasShape, members: Iterable[TaskRecord]) -> CanvasStatus:
        counts: Counter[State] = Counter()
        failed: list[TaskRecord] = []
        has_grown = False
        for record in members:
            counts[record.state] += 1
            has_grown = has_grown or _has_grown(shape, record)
            if record.state is State.FAILED and len(failed) < MAX_FAILURES:
                failed.append(record)
        state = _state(root, counts)
        if state is State.CANCELLED and has_grown:
            added = self._added(root, shape)
            failed = [record for record in added if record.state is State.FAILED][:MAX_FAILURES]
            is_going = any(not record.is_terminal for record in added)
            state = State.RUNNING if is_going else State.FAILED if failed else state
        failures = [FailedMember(record.id, record.name, record.error) for record in failed]
        return CanvasStatus(self.id, shape.name, state, counts.total(), dict(counts), failures)

    def _all_records(self, root: TaskRecord, *, with_aside: bool = True) -> list[TaskRecord]:
        """Its members, the callbacks aside, and what was added to them."""
        shape = read_shape(self._store_connection.store, root)
        ids = [*self._members(shape), *(shape.tasks(aside=True) if with_aside else ())]
        records = {record.id: record for record in self._records(ids)}
        if any(_has_grown(shape, record) for record in records.values()):
            records |= {record.id: record for record in self._added(root, shape)}
        return list(records.values())

    def _added(self, root: TaskRecord, shape: CanvasShape) -> list[TaskRecord]:
        """What was spawned, or took the place of tasks, while the canvas ran, with its joins, oldest first. They are looked for
        among all records since then, so only a canvas that has grown is asked for them."""
        own = shape.own_ids.union(shape.joins())
        found = members_found(self._store_connection.store, root, since=root.enqueued_at)
        return [record for record in found if record.id not in own][::-1]

    def _get(self, task_id: str) -> TaskRecord | None:
        return self._store_connection.store.results.get([task_id], past_retention=True).get(task_id)

    def _members(self, shape: CanvasShape) -> Iterator[str]:
        """Its tasks, and those that were spawned into its groups."""
        yield from shape.tasks(aside=False)
        for record in self._records([self.id, *shape.joins()]):
            if record.name in JOINS:
                yield from spawned(record.meta)

    def _records(self, ids: Iterable[str]) -> Iterator[TaskRecord]:
        """The records of these tasks, in order; those that are gone are left out."""
        wanted = list(ids)
        for start in range(0, len(wanted), CHUNK):
            part = wanted[start : start + CHUNK]
            found = self._store_connection.store.results.get(part, past_retention=True)
            yield from (found[id] for id in part if id in found)


def _has_grown(shape: CanvasShape, record: TaskRecord) -> bool:
    """Whether the record of a member says that there are others beyond the shape."""
    return record.id not in shape.own_ids or (VALUE_OF in record.meta and PASSED not in record.meta)


def _state(root: TaskRecord, counts: Counter[State]) -> State:
    """The state of a canvas: that of its join, but failed if a task has failed, and running while it goes on."""
    if root.state is State.SUCCEEDED:
        return State.SUCCEEDED
    waiting, running = counts[State.QUEUED] + counts[State.RETRIED], counts[State.RUNNING]
    if waiting or running:
        is_begun = running or counts[State.SUCCEEDED] or counts[State.FAILED] or counts[State.CANCELLED]
        return State.RUNNING if is_begun else State.QUEUED
    if not root.is_terminal:
        return State.RUNNING
    return State.FAILED if counts[State.FAILED] else State.CANCELLED


async def _in_a_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    import asyncio

    return await asyncio.to_thread(call, *args, **kwargs)
