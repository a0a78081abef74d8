"""Groups, whose tasks run at the same time, and chords, whose callback gets all of their values."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain as chained
from itertools import islice, repeat
from typing import Any, Generic, Self, TypeGuard, TypeVar, overload

import msgspec

from stem.client.canvas.builder import Builder, Building, Scope, Source, following
from stem.client.canvas.canvas import Canvas, Chain, checked, end_of, end_part, in_chain, of_all, step_scope
from stem.core.errors import InvalidTask, UsageError
from stem.core.prerequisites import OnFailure

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Group(Canvas[list[R_co]]):
    """Tasks that run at the same time; its value is the list of theirs, in the order in which they were given.

    An iterable is read when the group is submitted. One that can be read once, such as a generator, can be submitted once.
    """

    kind = "group"

    def __init__(self, members: Iterable[Canvas[R_co]], *, partial: bool = False, **of_all: Any) -> None:
        self._members: list[Canvas[R_co]] | None = None
        self._stream: Iterator[Canvas[R_co]] | None = None
        self._source: Iterable[Canvas[R_co]] | None = None  # if it can be read more than once
        self._first: list[Canvas[R_co]] | None = None  # of a generator, once it is known
        self._like: Canvas[Any] | None = None  # of a generator whose members all end in the same task
        if isinstance(members, list | tuple):
            self._members = [checked(member) for member in members]
        else:
            self._stream = iter(members)
            self._source = members if self._stream is not members else None
        self.partial = partial
        vars(self).update(of_all)

    @property
    def members(self) -> list[Canvas[R_co]]:
        """Its members; a generator is read for it."""
        if self._members is None:
            self._members = [checked(member) for member in self._taken()]
        return self._members

    @property
    def is_empty(self) -> bool:  # type: ignore[override]
        """Whether it has no members. Of a generator the first is read for it."""
        if self._members is not None:
            return all(member.is_empty for member in self._members)
        return not self._look()

    def parts(self) -> Iterable[Canvas[Any]]:
        """One member is enough to know the app; the others are checked when they are built."""
        return self._look() if self._members is None else self._members

    def decode(self, value: msgspec.Raw) -> Any:
        # The value of one who ended the chain early need not be a list.
        parts = msgspec.json.decode(value, type=list[msgspec.Raw]) if bytes(value).startswith(b"[") else None
        ends = None if parts is None else self._ends(len(parts))
        if parts is None or ends is None:
            return msgspec.json.decode(value)
        return [end.decode(part) for end, part in zip(ends, parts, strict=True)]

    def _ends(self, count: int) -> Iterable[Canvas[Any]] | None:
        """What gave each of so many values; None if that is not known, as where a task has added members."""
        if self._members is None:
            return None if self._like is None else repeat(self._like, count)
        ends = list(self._flat())
        return ends if len(ends) == count and not any(isinstance(end, Group) for end in ends) else None

    def _flat(self) -> Iterator[Canvas[Any]]:
        """The members, with those of the groups that are made part of this one."""
        for member in map(_bare, self._members or ()):
            if self._takes_in(member) and member._members is not None:
                yield from member._flat()
            elif not member.is_empty:
                yield member

    def _takes_in(self, member: Canvas[Any]) -> TypeGuard["Group[Any]"]:
        return isinstance(member, Group) and member.partial == self.partial and not member.links

    def build(self, builder: Builder, source: Source, scope: Scope, end_id: str | None) -> Building:
        source, scope = self.entered(source, scope)
        join_id = builder.canvas_id if scope.is_root else end_id or builder.new_id()
        builder.note("group", scope, **({} if scope.is_root else {"id": join_id}))
        ids: list[str] = []
        # A join of a partial group never fails, so its error callbacks are its members'.
        is_of_members = self.partial or not scope.is_followed
        errors = self.errors if is_of_members else ()
        yield self.build_members(builder, source, scope.member_of(join_id), ids, errors)
        on_failure = OnFailure.RUN if self.partial else OnFailure.CANCEL
        builder.join(ids, tuple(ids) or source.after, source, scope, join_id, on_failure)
        yield from self.attach(builder, join_id, scope, with_errors=not is_of_members)
        return join_id

    def build_members(
        self, builder: Builder, source: Source, scope: Scope, ids: list[str], errors: tuple[Canvas[Any], ...]
    ) -> Building:
        """Add the members and append the ids of the tasks that end them; a group in the group is made part of it."""
        members: Iterable[Canvas[Any]] = self._noted(self._taken()) if self._members is None else self._members
        for member in map(_bare, map(checked, members)):
            if member.is_empty:
                continue
            if self._takes_in(member):
                inner_source, inner_scope = member.entered(source, scope)
                yield member.build_members(builder, inner_source, inner_scope, ids, (*errors, *member.errors))
            else:
                yield Canvas.build_members(member, builder, source, scope, ids, errors)

    def _noted(self, stream: Iterator[Canvas[R_co]]) -> Iterator[Canvas[R_co]]:
        """Pass members on, and remember one of them if all end in the same task: their values are read alike."""
        self._like, seen = None, set[str | None]()
        for member in stream:
            end = end_part(member) if isinstance(member, Canvas) else None
            sender = getattr(end, "sender", None)
            seen.add(None if sender is None else sender.definition.name)
            self._like = end if len(seen) == 1 and sender is not None else None
            yield member

    def as_partial(self) -> Self:
        made = self._changed()
        made.partial = True
        return made

    def _look(self) -> list[Canvas[R_co]]:
        """Read the first member of a generator."""
        if self._first is None:
            stream = self._taken()
            self._first = [checked(member) for member in islice(stream, 1)]
            self._stream = chained(self._first, stream)
        return self._first

    def _taken(self) -> Iterator[Canvas[R_co]]:
        stream, self._stream = self._stream, None
        if stream is None and self._source is not None:
            stream = iter(self._source)
        if stream is None:
            raise UsageError("The group was made of a generator, which has been read; make the group anew.")
        return stream

    def _form(self) -> dict[str, Any]:
        form: dict[str, Any] = {"members": [member.to_dict() for member in self.members]}
        return {**form, "partial": True} if self.partial else form

    def _changed(self, **changes: Any) -> Self:
        made = type(self)([], partial=self.partial, **{**of_all(self), **changes})
        made._members, made._source, made._first = self._members, self._source, self._first
        made._stream, self._stream = self._stream, None
        return made

    def __repr__(self) -> str:
        shown = "…" if self._members is None else ", ".join(map(repr, self._members))
        return f"group({shown})"


class Chord(Canvas[R_co]):
    """A group and a callback that gets the list of its values."""

    kind = "chord"

    def __init__(self, header: Group[Any], body: Canvas[R_co], **of_all: Any) -> None:
        self.header = header
        self.body = checked(body)
        vars(self).update(of_all)

    def parts(self) -> Iterable[Canvas[Any]]:
        return (self.header, self.body)

    def last(self) -> Canvas[Any]:
        return self.header if self.body.is_empty else self.body

    def decode(self, value: msgspec.Raw) -> Any:
        return end_part(self).decode(value)

    def build(self, builder: Builder, source: Source, scope: Scope, end_id: str | None) -> Building:
        source, scope = self.entered(source, scope)
        builder.note("chord", scope)
        end_id = end_id or end_of(self, builder, scope)
        inner = in_chain(scope, end_id)
        if self.body.is_empty:
            end = yield self.header.build(builder, source, step_scope(inner, is_last=True), end_id)
        else:
            joined = yield self.header.build(builder, source, step_scope(inner, is_last=False), None)
            end = yield self.body.build(builder, following(joined), step_scope(inner, is_last=True), end_id)
        yield from self.attach(builder, end, scope)
        return end

    def _form(self) -> dict[str, Any]:
        return {"header": self.header.to_dict(), "body": self.body.to_dict()}

    def _changed(self, **changes: Any) -> Self:
        return type(self)(self.header, self.body, **{**of_all(self), **changes})

    def __repr__(self) -> str:
        return f"chord({self.header!r}, {self.body!r})"


@overload
def group(members: Iterable[Canvas[R]], /, *, partial: bool = False) -> Group[R]: ...
@overload
def group(*members: Canvas[R], partial: bool = False) -> Group[R]: ...
def group(*members: Any, partial: bool = False) -> Group[Any]:
    """Run tasks at the same time: `group(a.s(1), a.s(2))`, or of an iterable of signatures, which is read when it is submitted.

    With `partial` what follows runs even if members fail, and gets a FailedResult in place of their values.
    """
    if len(members) == 1 and not isinstance(members[0], Canvas):
        if not isinstance(members[0], Iterable):
            checked(members[0])
        return Group(members[0], partial=partial)
    return Group(list(members), partial=partial)


def chord(header: Group[Any] | Iterable[Canvas[Any]], callback: Canvas[R], *, partial: bool = False) -> Chord[R]:
    """Run a group, then a callback with the list of its values: `chord([a.s(1), a.s(2)], total.s())`.

    With `partial` the callback runs even if members fail, and gets a FailedResult in place of their values.
    """
    if isinstance(header, Canvas) and not isinstance(header, Group):
        raise InvalidTask("The header of a chord is a group or an iterable of signatures; write chord([…], callback).")
    made = header if isinstance(header, Group) else Group(header)
    if partial and not made.partial:
        made = made.as_partial()
    return Chord(made, callback)


class CallPerItem(Generic[R_co]):
    """One signature per item, made while it is read: as often as the items can be read."""

    def __init__(self, make: Callable[[Any], Canvas[R_co]], items: Iterable[Any]) -> None:
        self._make = make
        self._items = items

    def __iter__(self) -> Iterator[Canvas[R_co]]:
        return map(self._make, self._items)


def group_per_item(make: Callable[[Any], Canvas[R]], items: Iterable[Any]) -> Group[R]:
    is_read_once = iter(items) is items
    return Group(map(make, items) if is_read_once else CallPerItem(make, items))


def in_chunks(items: Iterable[Any], size: int) -> Iterable[list[Any]]:
    """Lists of so many items. Raises InvalidTask."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InvalidTask(f"The size of a chunk is {size!r}; give a whole number from 1.")
    stream = iter(items)
    return iter(lambda: list(islice(stream, size)), [])


def _bare(member: Canvas[Any]) -> Canvas[Any]:
    """The one step of a chain of one."""
    while isinstance(member, Chain) and not of_all(member):
        steps = [step for step in member.steps if not step.is_empty]
        if len(steps) != 1:
            break
        member = steps[0]
    return member
