"""A canvas: tasks composed into one whole. The base of its kinds, and the chain."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

import msgspec

from stem.client.canvas.builder import OF_WHOLE, TIMING, Builder, Building, Scope, Source, following
from stem.client.canvas.form import checked_options, plain_options
from stem.client.canvas.handle import CanvasHandle
from stem.client.canvas.submit import asubmit, replacement, spawned_members, submit
from stem.client.run.context import no_signature
from stem.client.send.handle import TaskHandle
from stem.client.store_connection import StoreConnection
from stem.client.task.hints import OF_CANVASES, missing
from stem.client.task.options import CallOptions
from stem.core.envelope import Push, Receipt
from stem.core.errors import InvalidTask, UsageError
from stem.core.prerequisites import OnFailure
from stem.core.record import TaskRecord

if TYPE_CHECKING:
    from stem.client.run.context import TaskContext

R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")


class Canvas(ABC, Generic[R_co]):
    """A composition of tasks whose value is of type R. It never changes: each method returns another."""

    kind = ""
    options: Mapping[str, Any] = {}
    links: "tuple[Canvas[Any], ...]" = ()  # run with its value when it has succeeded
    errors: "tuple[Canvas[Any], ...]" = ()  # run with a FailedResult when it has failed
    name: str | None = None
    is_empty: bool = False

    if not TYPE_CHECKING:  # a type checker would take any name

        def __getattr__(self, name: str) -> Any:
            raise missing(self, name, OF_CANVASES)

    def set(self, **options: Unpack[CallOptions]) -> Self:
        """Return it with these options. They hold for all of its tasks that do not say otherwise; a delay holds for the first
        ones, an id is that of the whole, or of the task if it is a single one. Raises InvalidTask."""
        return self._changed(options={**self.options, **checked_options(options)})

    def link(self, callback: "Canvas[Any]") -> Self:
        """Return it with a callback that gets its value when it has succeeded, and is no part of its result."""
        return self._changed(links=(*self.links, checked(callback)))

    def link_error(self, callback: "Canvas[Any]") -> Self:
        """Return it with a callback that gets a FailedResult when it has failed.

        That of a group runs once per failed member, that of a group which others follow (the header of a chord) once.
        """
        return self._changed(errors=(*self.errors, checked(callback)))

    def named(self, name: str) -> Self:
        """Return it with a name by which people know the whole. Raises InvalidTask."""
        if not isinstance(name, str) or not name:
            raise InvalidTask(f"The name of a canvas is {name!r}; give it as text.")
        return self._changed(name=name)

    def __or__(self, other: "Canvas[S]") -> "Chain[S]":
        if not isinstance(other, Canvas):
            return NotImplemented
        return Chain((self, other))

    def submit(self, *args: Any, connection: object | None = None, **kwargs: Any) -> CanvasHandle[R_co]:
        """Store all tasks or none. The arguments go to the first tasks, in front of their own. `connection` is an open
        transaction of the caller's. Raises InvalidTask or InvalidArguments with nothing written."""
        return submit(self, self.store_connection(), args, kwargs, connection=connection)

    async def asubmit(self, *args: Any, connection: object | None = None, **kwargs: Any) -> CanvasHandle[R_co]:
        return await asubmit(self, self.store_connection(), args, kwargs, connection=connection)

    enqueue = submit
    aenqueue = asubmit

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Canvas) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, which `app.canvas_of` reads. Raises InvalidArguments."""
        form = {"kind": self.kind, **self._form()}
        if self.options:
            form["options"] = plain_options(self.options)
        if self.links:
            form["link"] = [each.to_dict() for each in self.links]
        if self.errors:
            form["linkError"] = [each.to_dict() for each in self.errors]
        if self.name is not None:
            form["name"] = self.name
        return form

    @abstractmethod
    def parts(self) -> "Iterable[Canvas[Any]]": ...

    @abstractmethod
    def build(self, builder: Builder, source: Source, scope: Scope, end_id: str | None) -> Building:
        """Add its tasks; returns the id of the task or join that ends it. `end_id` is the id that this one is to have."""

    @abstractmethod
    def decode(self, value: msgspec.Raw) -> Any:
        """Decode its value, as the annotated types where they are known."""

    @abstractmethod
    def _form(self) -> dict[str, Any]: ...

    @abstractmethod
    def _changed(self, **changes: Any) -> Self: ...

    def last(self) -> "Canvas[Any]":
        """The part whose end is its end; itself, if there is none."""
        return self

    def store_connection(self) -> StoreConnection:
        """The connection of the app whose tasks these are. Raises UsageError."""
        waiting: list[Canvas[Any]] = [self]
        while waiting:
            one = waiting.pop()
            if (own := one.own_connection()) is not None:
                return own
            waiting += [*one.parts(), *one.links, *one.errors]
        raise UsageError("The canvas holds no task that would tell its app; submit it with app.submit(canvas).")

    def own_connection(self) -> StoreConnection | None:
        return None

    # For a running task: `ctx.enqueue(canvas)`, `ctx.replace(canvas)`, `ctx.spawn(canvas)`

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        return args, kwargs

    def enqueue_by(
        self,
        push: Callable[[Sequence[Push]], list[Receipt]],
        store_connection: StoreConnection,
        arguments: tuple[tuple[Any, ...], Mapping[str, Any]],
    ) -> CanvasHandle[R_co]:
        """Store it with `push`, which uses an open connection to the store of `store_connection`."""
        args, kwargs = arguments
        own = self.store_connection()
        return submit(self, own, args, kwargs, push=push if own is store_connection else None)

    def replacement(self, context: "TaskContext") -> tuple[list[Push], str]:
        """The pushes that put it in the place of a running task, and the task whose value counts. Raises UsageError."""
        return replacement(self, context.store_connection, context)

    def spawned(self, context: "TaskContext", join_id: str) -> tuple[list[Push], list[TaskHandle[Any]]]:
        """The pushes that make it a further member of a group, and handles to what ends its members."""
        pushes, ids = spawned_members(self, context.store_connection, context, join_id)
        return pushes, [TaskHandle(context.store_connection, id, TaskRecord.result) for id in ids]

    def build_members(
        self,
        builder: Builder,
        source: Source,
        scope: Scope,
        ids: list[str],
        errors: "tuple[Canvas[Any], ...]",
    ) -> Building:
        """Add its members, or itself as the only one, and append the ids of the tasks that end them."""
        end_id = yield self.build(builder, source, scope, None)
        ids.append(end_id)
        for callback in errors:
            yield error_callback(callback, builder, end_id, scope)

    # For its kinds

    def entered(self, source: Source, scope: Scope) -> tuple[Source, Scope]:
        """What its parts have before and around them, with its own options."""
        if not self.options:
            return source, scope
        if scope.depth and self.options.get("id") is not None:
            raise InvalidTask(
                f"A {self.kind} inside of a canvas has an id, and only tasks and the whole have one; drop it."
            )
        timing = {name: self.options[name] for name in TIMING if self.options.get(name) is not None}
        rest = {name: value for name, value in self.options.items() if name not in (*TIMING, *OF_WHOLE)}
        return (
            msgspec.structs.replace(source, timing=timing or source.timing),
            msgspec.structs.replace(scope, options={**scope.options, **rest}),
        )

    def attach(self, builder: Builder, end_id: str, scope: Scope, *, with_errors: bool = True) -> Building:
        """Add its callbacks, which follow this task."""
        for callback in self.links:
            builder.note("link", scope.aside())
            yield callback.build(builder, following(end_id), scope.aside(), None)
        for callback in self.errors if with_errors else ():
            yield error_callback(callback, builder, end_id, scope)


def error_callback(callback: Canvas[Any], builder: Builder, task_id: str, scope: Scope) -> Building:
    builder.note("link_error", scope.aside())
    yield callback.build(builder, following(task_id, OnFailure.ONLY), scope.aside(), None)


def checked(part: Any) -> Canvas[Any]:
    """Raises InvalidTask."""
    if isinstance(part, Canvas):
        return part
    raise no_signature(part)


class Chain(Canvas[R_co]):
    """Tasks one after the other; each takes the value of the one before. `chain(a, b, c)` or `a | b | c`."""

    kind = "chain"

    def __init__(self, steps: Iterable[Canvas[Any]], **of_all: Any) -> None:
        self.steps = tuple(inner for step in steps for inner in _flat(checked(step)))
        vars(self).update(of_all)
        self.is_empty = all(step.is_empty for step in self.steps)

    def parts(self) -> Iterable[Canvas[Any]]:
        return self.steps

    def last(self) -> Canvas[Any]:
        return next((step for step in reversed(self.steps) if not step.is_empty), self)

    def decode(self, value: msgspec.Raw) -> Any:
        end = end_part(self)
        return msgspec.json.decode(value) if end is self else end.decode(value)

    def build(self, builder: Builder, source: Source, scope: Scope, end_id: str | None) -> Building:
        steps = self._steps()
        source, scope = self.entered(source, scope)
        if len(steps) > 1:
            builder.note("chain", scope)
            end_id = end_id or end_of(self, builder, scope)
            scope = in_chain(scope, end_id)
        for number, step in enumerate(steps, 1):
            is_last = number == len(steps)
            around = scope if len(steps) == 1 else step_scope(scope, is_last=is_last)
            end = yield step.build(builder, source, around, end_id if is_last else None)
            source = following(end)
        yield from self.attach(builder, source.after[0], scope)
        return source.after[0]

    def _steps(self) -> list[Canvas[Any]]:
        return [step for step in self.steps if not step.is_empty]

    def _form(self) -> dict[str, Any]:
        return {"steps": [step.to_dict() for step in self.steps]}

    def _changed(self, **changes: Any) -> Self:
        return type(self)(self.steps, **{**of_all(self), **changes})

    def __repr__(self) -> str:
        return (
            " | ".join(map(repr, self.steps)) if len(self.steps) > 1 else f"chain({', '.join(map(repr, self.steps))})"
        )


def chain(*steps: Any) -> Chain[Any]:
    """Run tasks one after the other: `chain(a.s(1), b.s(), c.s())`, or of an iterable of signatures. Raises InvalidTask."""
    if len(steps) == 1 and not isinstance(steps[0], Canvas) and isinstance(steps[0], Iterable):
        steps = tuple(steps[0])
    return Chain(steps)


def end_of(canvas: Canvas[Any], builder: Builder, scope: Scope) -> str:
    """The id of the task or join that will end a chain."""
    end = end_part(canvas)
    if end.kind == "task":
        return end.call_options.get("id") or builder.new_id()  # type: ignore[attr-defined]
    return builder.canvas_id if scope.is_root else builder.new_id()


def end_part(canvas: Canvas[Any]) -> Canvas[Any]:
    while (last := canvas.last()) is not canvas:
        canvas = last
    return canvas


def in_chain(scope: Scope, chain_id: str) -> Scope:
    """The scope of the links of a chain: its own, unless it is a link of another."""
    if scope.is_link:
        return scope
    return msgspec.structs.replace(scope, chain_id=chain_id, outer_chain_id=scope.chain_id, is_link=True)


def step_scope(scope: Scope, *, is_last: bool) -> Scope:
    return scope.inside(is_root=scope.is_root and is_last, is_followed=scope.is_followed or not is_last)


def of_all(canvas: Canvas[Any]) -> dict[str, Any]:
    """What every kind of canvas has."""
    names = ("options", "links", "errors", "name")
    return {name: vars(canvas)[name] for name in names if name in vars(canvas)}


def _flat(step: Canvas[Any]) -> tuple[Canvas[Any], ...]:
    return step.steps if isinstance(step, Chain) and not of_all(step) else (step,)
