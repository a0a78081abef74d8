"""Send calls of one task: one at a time, or many in chunks."""

from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack

import msgspec

from stem.client.compose import compose, draft
from stem.client.definition import Definition
from stem.client.handle import TaskHandle
from stem.client.hints import OF_TASKS, missing
from stem.client.link import Link
from stem.client.options import CallOptions, Plan, check_limits, planned
from stem.client.reachable import check_reachable
from stem.client.signature import refuse_no_object
from stem.core.envelope import Envelope, Push, Receipt
from stem.core.errors import InvalidTask
from stem.core.record import TaskRecord

P = ParamSpec("P")
R = TypeVar("R")

MAX_CHUNK = 100_000
CHUNK_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Item(Generic[P, R]):
    """One call of a task, to be sent by `enqueue_many`; its own options count before the sender's."""

    task: str
    arguments: dict[str, Any]
    options: Mapping[str, Any]
    plan: Plan


class Bulk(msgspec.Struct, frozen=True):
    """How many tasks were created, and how many were there already."""

    created: int = 0
    existing: int = 0


class Sender(Generic[P, R]):
    """A task with the options that its calls are sent with."""

    def __init__(self, link: Link, definition: Definition, plan: Plan, options: Mapping[str, Any]) -> None:
        self.definition = definition
        self._link = link
        self._plan = plan
        self._draft: Envelope | None = None  # made with the first call: many senders only make an item
        self._options = options

    def options(self, **options: Unpack[CallOptions]) -> "Sender[P, R]":
        """The same task with these options for its calls. Raises InvalidTask."""
        return Sender(self._link, self.definition, self._planned(options, self._plan), {**self._options, **options})

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R]:
        """Store one call; when this returns it is kept. Raises InvalidTask or InvalidArguments with nothing written."""
        return self._send(self.bind(args, kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R]:
        return await self._asend(self.bind(args, kwargs))

    def send(self, arguments: Mapping[str, Any]) -> TaskHandle[R]:
        """As `enqueue`, with the arguments by name in one object."""
        return self._send(self.bind_object(arguments))

    async def asend(self, arguments: Mapping[str, Any]) -> TaskHandle[R]:
        return await self._asend(self.bind_object(arguments))

    def enqueue_by(
        self, push: Callable[[list[Push]], list[Receipt]], link: Link, arguments: Mapping[str, Any]
    ) -> TaskHandle[R]:
        """Store one call, its arguments bound, over a connection to the store of `link` that someone else holds. A task of
        another app, and a call that joins a transaction, go their own way."""
        if link is not self._link or self._plan.connection is not None:
            return self._send(arguments)
        return self._handle(push([self._push(arguments)])[0])

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """One call as one object of named arguments. Raises InvalidArguments."""
        signature = self.definition.signature
        return dict(kwargs) if signature is None else signature.bind(args, kwargs)

    def bind_object(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same for a call that names all its arguments. Raises InvalidArguments."""
        signature = self.definition.signature
        if signature is not None:
            return signature.bind_object(arguments)
        refuse_no_object(arguments)
        return arguments

    def item(self, *args: P.args, **kwargs: P.kwargs) -> Item[P, R]:
        """One call for `enqueue_many`. `task.options(id=…).item(…)` gives it an id of its own."""
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
        in memory. `on_chunk` is told the counts so far. A bad item raises; the chunks before its own are kept. Sending
        items that carry ids again adds what is missing.
        """
        load = _Load(self, chunk, on_chunk)
        for item in items:
            if load.add(item):
                load.stored(self._link.push(load.pushes, self._plan.connection))
        if load.pushes:
            load.stored(self._link.push(load.pushes, self._plan.connection))
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
            load.stored(await self._link.apush(load.pushes, self._plan.connection))

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

    def _base(self, item: Item[P, R]) -> Plan:
        """The sender's plan, without its start where the item has one of its own."""
        if item.plan.delay_seconds is None and item.plan.not_before is None:
            return self._plan
        return msgspec.structs.replace(self._plan, delay_seconds=None, not_before=None)

    def _planned(self, options: Mapping[str, Any], base: Plan) -> Plan:
        plan, task = planned(base, options), self.definition
        if plan.soft_limit is not None or plan.hard_limit is not None:
            check_limits(plan.soft_limit or task.soft_limit, plan.hard_limit or task.hard_limit)
        return plan

    def _send(self, arguments: Mapping[str, Any]) -> TaskHandle[R]:
        return self._handle(self._link.push([self._push(arguments)], self._plan.connection)[0])

    async def _asend(self, arguments: Mapping[str, Any]) -> TaskHandle[R]:
        return self._handle((await self._link.apush([self._push(arguments)], self._plan.connection))[0])

    def _push(self, arguments: Mapping[str, Any]) -> Push:
        if self._draft is None:
            check_reachable(self._link, self.definition)
            self._draft = draft(self.definition.name, self._plan, is_fair=self._link.settings.fair_share)
        return compose(self._link, self._draft, self._plan, arguments, self.definition.signature)

    def _push_item(self, item: Item[P, R] | Mapping[str, Any]) -> Push:
        if not isinstance(item, Item):
            return self._push(self.bind_object(item))
        if item.task != self.definition.name:
            raise InvalidTask(
                f"It is a call of {item.task}, sent with {self.definition.name}; send it with its own task."
            )
        if not item.options:
            return self._push(item.arguments)
        if item.plan.connection is not None and item.plan.connection is not self._plan.connection:
            raise InvalidTask(
                "It has a connection= of its own, and a chunk is stored whole; give it to the sender instead: "
                "task.options(connection=…).enqueue_many(…)."
            )
        plan = self._planned(item.options, self._base(item)) if self._options else item.plan
        return compose(
            self._link,
            draft(item.task, plan, is_fair=self._link.settings.fair_share),
            plan,
            item.arguments,
            self.definition.signature,
        )

    def _handle(self, receipt: Receipt) -> TaskHandle[R]:
        return TaskHandle(self._link, receipt.id, self._result, created=receipt.created)

    def _result(self, record: TaskRecord) -> R:
        value: R = result_of(record, self.definition)
        return value


def result_of(record: TaskRecord, definition: Definition | None) -> Any:
    """What the task returned, of the annotated type where the task is known here."""
    if record.payload is None or definition is None or definition.signature is None:
        return record.result()
    return definition.signature.decode_result(record.payload)


class _Load:
    """One chunk being filled, and the counts so far."""

    def __init__(self, sender: Sender[P, R], chunk: int, on_chunk: Callable[[Bulk], object] | None) -> None:
        if isinstance(chunk, bool) or not isinstance(chunk, int) or not 1 <= chunk <= MAX_CHUNK:
            raise InvalidTask(f"chunk {chunk!r} is not a whole number from 1 to {MAX_CHUNK:,}.")
        if sender._plan.id is not None:
            raise InvalidTask(
                "One id cannot be that of many calls; give each item its own: task.options(id=…).item(…)."
            )
        self.pushes: list[Push] = []
        self.bulk = Bulk()
        self._push_item: Callable[[Any], Push] = sender._push_item
        self._chunk = chunk
        self._bytes = 0
        self._on_chunk = on_chunk

    def add(self, item: object) -> bool:
        """True: the chunk is full and wants to be stored."""
        try:
            push = self._push_item(item)
        except InvalidTask as error:
            before = self.bulk.created + self.bulk.existing
            where = f"Item {before + len(self.pushes) + 1:,}, with {before:,} stored before its chunk"
            raise type(error)(f"{where}: {error}") from error
        self.pushes.append(push)
        self._bytes += len(push.envelope.args)
        return len(self.pushes) >= self._chunk or self._bytes >= CHUNK_BYTES

    def stored(self, receipts: list[Receipt]) -> None:
        created = sum(receipt.created for receipt in receipts)
        self.bulk = Bulk(self.bulk.created + created, self.bulk.existing + len(receipts) - created)
        self.pushes, self._bytes = [], 0
        if self._on_chunk is not None:
            self._on_chunk(self.bulk)
