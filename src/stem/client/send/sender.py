"""Sends calls of one task, one at a time or many in chunks."""

from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

import msgspec

from stem.client.canvas.group import Group, group_per_item, in_chunks
from stem.client.canvas.signature import Signature
from stem.client.reachable import check_reachable
from stem.client.send.announcing import announced
from stem.client.send.broadcast import Broadcast, BroadcastHandle, broadcast
from stem.client.send.compose import compose, envelope_template
from stem.client.send.handle import TaskHandle
from stem.client.store_connection import StoreConnection
from stem.client.task.definition import Definition
from stem.client.task.hints import OF_TASKS, missing
from stem.client.task.options import CallOptions, CallPlan, check_limits, planned
from stem.client.task.signature import refuse_no_object
from stem.core.envelope import Envelope, Push, Receipt
from stem.core.errors import InvalidTask
from stem.core.record import TaskRecord

P = ParamSpec("P")
R = TypeVar("R")

MAX_CHUNK = 100_000
CHUNK_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Item(Generic[P, R]):
    """One call of a task, to be sent by `enqueue_many`; its own options override the sender's."""

    task: str
    arguments: dict[str, Any]
    options: Mapping[str, Any]
    plan: CallPlan


class Bulk(msgspec.Struct, frozen=True):
    """Counts of `enqueue_many`: tasks created, and tasks that existed already."""

    created: int = 0
    existing: int = 0


class Sender(Generic[P, R]):
    """A task together with the options of its calls."""

    def __init__(
        self, store_connection: StoreConnection, definition: Definition, plan: CallPlan, options: Mapping[str, Any]
    ) -> None:
        self.definition = definition
        self._store_connection = store_connection
        self._plan = plan
        self._template: Envelope | None = None  # made with the first call: many senders only make an item
        self._options = options

    def options(self, **options: Unpack[CallOptions]) -> "Sender[P, R]":
        """Return a sender of the same task with these options. Raises InvalidTask."""
        return Sender(
            self._store_connection, self.definition, self._planned(options, self._plan), {**self._options, **options}
        )

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R]:
        """Store one call durably. Raises InvalidTask or InvalidArguments with nothing written.

        For a task that a route broadcasts, store one call for each live worker, and return a BroadcastHandle. Raises
        NoLiveWorkers with nothing written."""
        return self._send(self.bind(args, kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R]:
        return await self._asend(self.bind(args, kwargs))

    def send(self, arguments: Mapping[str, Any]) -> TaskHandle[R]:
        """Enqueue with the arguments by name in one object."""
        return self._send(self.bind_object(arguments))

    async def asend(self, arguments: Mapping[str, Any]) -> TaskHandle[R]:
        return await self._asend(self.bind_object(arguments))

    def compose(self, arguments: Mapping[str, Any]) -> list[Push]:
        """Build the push of one call without storing it; those of all live workers for a broadcast. Raises InvalidTask,
        InvalidArguments, NoLiveWorkers."""
        return self._pushes(self.bind_object(arguments), self._plan)

    def enqueue_by(
        self,
        push: Callable[[Sequence[Push]], list[Receipt]],
        store_connection: StoreConnection,
        arguments: Mapping[str, Any],
    ) -> TaskHandle[R]:
        """Store one bound call with `push`, which uses an open connection to the store of `store_connection`. A task of
        another app, and a call that joins a transaction, are sent as usual."""
        joins = self._plan.connection is not None or store_connection.is_in_transaction
        if joins or store_connection is not self._store_connection:
            return self._send(arguments)
        if self._plan.is_broadcast:
            sent = self._broadcast(arguments)
            return self._broadcast_handle(sent, announced(sent.pushes, push))
        return self._handle(announced([self._push(arguments)], push)[0])

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Bind a call to one object of named arguments. Raises InvalidArguments."""
        signature = self.definition.signature
        return dict(kwargs) if signature is None else signature.bind(args, kwargs)

    def bind_object(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Bind a call that names all its arguments. Raises InvalidArguments."""
        signature = self.definition.signature
        if signature is not None:
            return signature.bind_object(arguments)
        refuse_no_object(arguments)
        return arguments

    @property
    def store_connection(self) -> StoreConnection:
        return self._store_connection

    @property
    def given_options(self) -> Mapping[str, Any]:
        return self._options

    def plan_of(self, options: Mapping[str, Any]) -> CallPlan:
        """Return the plan of a call of the task with these options alone. Raises InvalidTask."""
        return self._planned(options, self.definition.plan)

    def s(self, *args: Any, **kwargs: Any) -> Signature[R]:
        """Make a signature: a call to be composed with others. In a chain or as a callback it takes the value of what comes
        before it as its first free argument."""
        return Signature(self, args, kwargs)

    def si(self, *args: P.args, **kwargs: P.kwargs) -> Signature[R]:
        """Make an immutable signature, which takes no value of others. Raises InvalidArguments."""
        self.bind(args, kwargs)
        return Signature(self, args, kwargs, is_immutable=True)

    def map(self, items: Iterable[Any]) -> Group[R]:
        """A group with one task per item, which is its first argument. A generator is read when the group is submitted."""
        return group_per_item(self.s, items)

    def starmap(self, items: Iterable[Iterable[Any]]) -> Group[R]:
        """A group with one task per item, which is the list of its positional arguments."""
        return group_per_item(lambda item: self.s(*item), items)

    def chunks(self, items: Iterable[Any], size: int) -> Group[R]:
        """A group with one task per `size` items, whose first argument is the list of them."""
        return group_per_item(self.s, in_chunks(items, size))

    def item(self, *args: P.args, **kwargs: P.kwargs) -> Item[P, R]:
        """Make one call for `enqueue_many`. `task.options(id=…).item(…)` gives it an id of its own."""
        return Item(self.definition.name, self.bind(args, kwargs), self._options, self._plan)

    def enqueue_many(
        self,
        items: Iterable[Item[P, R] | Mapping[str, Any]],
        *,
        chunk: int = 1000,
        on_chunk: Callable[[Bulk], object] | None = None,
    ) -> Bulk:
        """Store a stream of calls: items of this task, or objects of named arguments.

        A chunk (of `chunk` items, or of 8 MiB if that is less) is stored whole or not at all; no more than one is held
        in memory. `on_chunk` gets the counts so far. A bad item raises; the chunks before its own are kept. Sending
        items that carry ids again adds what is missing.
        """
        load = _Load(self, chunk, on_chunk)
        for item in items:
            if load.add(item):
                load.stored(self._store_connection.push(load.pushes, self._plan.connection))
        if load.pushes:
            load.stored(self._store_connection.push(load.pushes, self._plan.connection))
        return load.bulk

    async def aenqueue_many(
        self,
        items: Iterable[Item[P, R] | Mapping[str, Any]] | AsyncIterable[Item[P, R] | Mapping[str, Any]],
        *,
        chunk: int = 1000,
        on_chunk: Callable[[Bulk], object] | None = None,
    ) -> Bulk:
        load = _Load(self, chunk, on_chunk)

        async def store() -> None:
            load.stored(await self._store_connection.apush(load.pushes, self._plan.connection))

        if isinstance(items, AsyncIterable):
            async for item in items:
                if load.add(item):
                    await store()
        else:
            for item in items:
                if load.add(item):
                    await store()
        if load.pushes:
            await store()
        return load.bulk

    if not TYPE_CHECKING:  # a type checker would take any name

        def __getattr__(self, name: str) -> Any:
            raise missing(self, name, OF_TASKS)

    def _base(self, item: Item[P, R]) -> CallPlan:
        """Return the sender's plan, without its start time if the item has its own."""
        if item.plan.delay_seconds is None and item.plan.not_before is None:
            return self._plan
        return msgspec.structs.replace(self._plan, delay_seconds=None, not_before=None)

    def _planned(self, options: Mapping[str, Any], base: CallPlan) -> CallPlan:
        plan, task = planned(base, options), self.definition
        if plan.soft_limit is not None or plan.hard_limit is not None:
            check_limits(plan.soft_limit or task.soft_limit, plan.hard_limit or task.hard_limit)
        return plan

    def _send(self, arguments: Mapping[str, Any]) -> TaskHandle[R]:
        if self._plan.is_broadcast:
            sent = self._broadcast(arguments)
            return self._broadcast_handle(sent, self._store_connection.push(sent.pushes, self._plan.connection))
        return self._handle(self._store_connection.push([self._push(arguments)], self._plan.connection)[0])

    async def _asend(self, arguments: Mapping[str, Any]) -> TaskHandle[R]:
        if self._plan.is_broadcast:
            import asyncio

            sent = await asyncio.to_thread(self._broadcast, arguments)  # which asks the store for the live workers
            return self._broadcast_handle(sent, await self._store_connection.apush(sent.pushes, self._plan.connection))
        return self._handle((await self._store_connection.apush([self._push(arguments)], self._plan.connection))[0])

    def _push(self, arguments: Mapping[str, Any]) -> Push:
        if self._template is None:
            check_reachable(self._store_connection, self.definition)
            self._template = envelope_template(
                self.definition.name, self._plan, is_fair=self._store_connection.settings.fair_share
            )
        return compose(self._store_connection, self._template, self._plan, arguments, self.definition.signature)

    def _pushes(self, arguments: Mapping[str, Any], plan: CallPlan) -> list[Push]:
        """`plan` is this sender's, or that of one item."""
        if plan.is_broadcast:
            return self._broadcast(arguments, plan).pushes
        if plan is self._plan:
            return [self._push(arguments)]
        template = envelope_template(self.definition.name, plan, is_fair=self._store_connection.settings.fair_share)
        return [compose(self._store_connection, template, plan, arguments, self.definition.signature)]

    def _broadcast(self, arguments: Mapping[str, Any], plan: CallPlan | None = None) -> Broadcast:
        check_reachable(self._store_connection, self.definition)
        return broadcast(self._store_connection, self.definition, plan or self._plan, arguments)

    def _push_item(self, item: Item[P, R] | Mapping[str, Any]) -> list[Push]:
        if not isinstance(item, Item):
            return self._pushes(self.bind_object(item), self._plan)
        if item.task != self.definition.name:
            raise InvalidTask(
                f"It is a call of {item.task}, sent with {self.definition.name}; send it with its own task."
            )
        if not item.options:
            return self._pushes(item.arguments, self._plan)
        if item.plan.connection is not None and item.plan.connection is not self._plan.connection:
            raise InvalidTask(
                "It has a connection= of its own, and a chunk is stored whole; give it to the sender instead: "
                "task.options(connection=…).enqueue_many(…)."
            )
        plan = self._planned(item.options, self._base(item)) if self._options else item.plan
        return self._pushes(item.arguments, plan)

    def _handle(self, receipt: Receipt) -> TaskHandle[R]:
        return TaskHandle(self._store_connection, receipt.id, self._result, created=receipt.created)

    def _broadcast_handle(self, sent: Broadcast, receipts: list[Receipt]) -> BroadcastHandle:
        handles = zip(sent.workers, map(self._handle, receipts), strict=True)
        return BroadcastHandle(self._store_connection, sent.id, dict(handles))

    def _result(self, record: TaskRecord) -> R:
        value: R = result_of(record, self.definition)
        return value


def result_of(record: TaskRecord, definition: Definition | None) -> Any:
    """Decode the returned value, as the annotated type if the task is known here."""
    if record.payload is None or definition is None or definition.signature is None:
        return record.result()
    return definition.signature.decode_result(record.payload)


class _Load:
    """The chunk being filled, and the counts so far."""

    def __init__(self, sender: Sender[P, R], chunk: int, on_chunk: Callable[[Bulk], object] | None) -> None:
        if isinstance(chunk, bool) or not isinstance(chunk, int) or not 1 <= chunk <= MAX_CHUNK:
            raise InvalidTask(f"chunk {chunk!r} is not a whole number from 1 to {MAX_CHUNK:,}.")
        if sender._plan.id is not None:
            raise InvalidTask(
                "One id cannot be that of many calls; give each item its own: task.options(id=…).item(…)."
            )
        self.pushes: list[Push] = []
        self.bulk = Bulk()
        self._push_item: Callable[[Any], list[Push]] = sender._push_item
        self._items = 0  # a broadcast has several pushes for each
        self._chunk = chunk
        self._bytes = 0
        self._on_chunk = on_chunk

    def add(self, item: object) -> bool:
        """Add the pushes of an item. Returns True when the chunk is full and must be stored."""
        try:
            pushes = self._push_item(item)
        except InvalidTask as error:
            before = self.bulk.created + self.bulk.existing
            where = f"Item {self._items + 1:,}, with {before:,} stored before its chunk"
            raise type(error)(f"{where}: {error}") from error
        self.pushes += pushes
        self._items += 1
        self._bytes += sum(len(push.envelope.args) for push in pushes)
        return len(self.pushes) >= self._chunk or self._bytes >= CHUNK_BYTES

    def stored(self, receipts: list[Receipt]) -> None:
        created = sum(receipt.created for receipt in receipts)
        self.bulk = Bulk(self.bulk.created + created, self.bulk.existing + len(receipts) - created)
        self.pushes, self._bytes = [], 0
        if self._on_chunk is not None:
            self._on_chunk(self.bulk)
