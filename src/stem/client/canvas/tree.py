"""A canvas as a tree of its tasks, with what became of each, and the path that decided how long it took."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby

import msgspec

from stem.client.canvas.shape import CanvasShape, ShapeEntry
from stem.client.run.context import JOIN_ID, PARENT_ID
from stem.core.lifecycle import State
from stem.core.prerequisites import JOINS, VALUE_OF, first_cause
from stem.core.record import TaskRecord

ALIKE = 8  # tasks of one name that follow each other are summed up beyond this many
SEQUENCES = frozenset({"chain", "chord"})  # their parts run one after the other
SPAWNED, REPLACEMENT = "spawned", "replacement"


class TreeLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of the tree: a task, several alike, or what holds the lines below it together. Of several, `seconds` is the
    longest, and the times are the first start and the last end.

    `is_critical`: the canvas could not have ended before it. `waits_for`: the task was cancelled for the failure of this one,
    which is being replayed, so it will go on. `added` says how a task came to the canvas that was no part of it when it was
    submitted: by `ctx.spawn` or `ctx.replace` of the task above it."""

    depth: int
    kind: str
    name: str
    id: str | None = None
    state: State | None = None
    counts: dict[State, int] = {}
    seconds: float | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    is_critical: bool = False
    waits_for: str | None = None
    added: str | None = None
    aside: bool = False


def tree_lines(
    shape: CanvasShape, records: Mapping[str, TaskRecord], added: Sequence[TaskRecord] = ()
) -> list[TreeLine]:
    """The lines of the tree, in the order of the composition. `added` are the tasks, and the joins between them, that were
    spawned or took the place of others, oldest first; each is drawn below the task of the shape that it came from."""
    return _Tree(shape, records, added).lines()


class _Node:
    """An entry of the shape with the entries below it."""

    def __init__(self, entry: ShapeEntry) -> None:
        self.entry = entry
        self.parts: list[_Node] = []


class _Tree:
    def __init__(self, shape: CanvasShape, records: Mapping[str, TaskRecord], added: Sequence[TaskRecord]) -> None:
        self._roots = _nodes(shape.entries)
        self._records = {**records, **{record.id: record for record in added}}
        self._added = _by_origin(shape, added)

    def lines(self) -> list[TreeLine]:
        critical = {
            id
            for root in self._last([root for root in self._roots if not root.entry.aside])
            for id in self._critical(root, in_sequence=True)
        }
        return [line for root in self._roots for line in self._lines(root, critical)]

    def _lines(self, node: _Node, critical: set[str]) -> Iterator[TreeLine]:
        entry = node.entry
        if entry.kind == "task":
            yield from self._task_lines(entry, critical)
        else:
            name = entry.name or entry.kind
            yield TreeLine(depth=entry.depth, kind=entry.kind, name=name, id=entry.id, aside=entry.aside)
        for part in node.parts:
            yield from self._lines(part, critical)

    def _task_lines(self, entry: ShapeEntry, critical: set[str], added: str | None = None) -> Iterator[TreeLine]:
        for ids in [entry.ids] if len(entry.ids) > ALIKE else [[id] for id in entry.ids]:
            yield self._line(entry, ids, critical, added)
            for origin in ids:
                how = REPLACEMENT if self._is_replaced(origin) else SPAWNED
                for name, alike in groupby(self._added.get(origin, ()), key=lambda record: record.name):
                    below = ShapeEntry(
                        "task", entry.depth + 1, name, ids=[each.id for each in alike], aside=entry.aside
                    )
                    yield from self._task_lines(below, critical, how)

    def _line(self, entry: ShapeEntry, ids: list[str], critical: set[str], added: str | None) -> TreeLine:
        found = [self._records[id] for id in ids if id in self._records]
        one = found[0] if len(ids) == 1 and found else None
        return TreeLine(
            depth=entry.depth,
            kind="task",
            name=entry.name or "",
            id=ids[0] if len(ids) == 1 else None,
            state=None if one is None else one.state,
            counts={} if len(ids) == 1 else dict(Counter(record.state for record in found)),
            seconds=max((each for record in found if (each := _seconds(record)) is not None), default=None),
            started_at=min((record.started_at for record in found if record.started_at is not None), default=None),
            finished_at=max((record.finished_at for record in found if record.finished_at is not None), default=None),
            is_critical=not critical.isdisjoint(ids),
            waits_for=None if one is None else self._replayed_cause(one),
            added=added,
            aside=entry.aside,
        )

    def _replayed_cause(self, record: TaskRecord) -> str | None:
        """The task for whose failure this one was cancelled, if it has been replayed and has not ended yet."""
        cause = first_cause(record.error) if record.state is State.CANCELLED else None
        found = None if cause is None else self._records.get(cause)
        return None if found is None or found.is_terminal else cause

    def _critical(self, node: _Node, *, in_sequence: bool) -> Iterator[str]:
        """The tasks on the path that ended last: all parts of a sequence, and of what runs side by side the last to end."""
        entry = node.entry
        parts = [part for part in node.parts if not part.entry.aside]
        if entry.kind == "task":
            for id in entry.ids if in_sequence else [max(entry.ids, key=self._end)]:
                yield from self._critical_added(id)
            return
        is_sequence = entry.kind in SEQUENCES
        way = parts if is_sequence else self._way(parts) if entry.kind == "workflow" else self._last(parts)
        for part in way:
            yield from self._critical(part, in_sequence=is_sequence)

    def _way(self, nodes: list[_Node]) -> Iterator[_Node]:
        """The node of a workflow that ended last, that of its prerequisites which ended last, and so on."""
        named = {node.entry.name: node for node in nodes}
        last = self._last(nodes)
        while last:
            yield last[0]
            last = self._last([named.pop(name) for name in last[0].entry.after if name in named])

    def _critical_added(self, origin: str) -> Iterator[str]:
        """A task, and of what came from it the task that ended last with those before it, if it ended later."""
        yield origin
        added, members = set[str](), dict[str, list[str]]()
        for record in self._added.get(origin, ()):
            added.add(record.id)
            members.setdefault(str(record.meta.get(JOIN_ID)), []).append(record.id)
        last = max(added, key=self._own_end, default=None)
        if last is not None and not self._is_replaced(origin) and self._own_end(last) <= self._own_end(origin):
            return
        while last in added:
            yield last
            added.remove(last)
            before = str(self._records[last].meta.get(PARENT_ID))  # a task, or the join of some
            last = max(members.get(before, ()), key=self._own_end, default=before)

    def _last(self, nodes: list[_Node]) -> list[_Node]:
        return [max(nodes, key=lambda node: max(self._ends(node), default=_NEVER))] if nodes else []

    def _ends(self, node: _Node) -> Iterator[datetime]:
        yield from map(self._end, node.entry.ids)
        for part in node.parts:
            yield from self._ends(part)

    def _end(self, id: str) -> datetime:
        """When a task ended, and what was spawned by it."""
        return max(self._own_end(id), *(self._own_end(each.id) for each in self._added.get(id, ())), _NEVER)

    def _own_end(self, id: str) -> datetime:
        record = self._records.get(id)
        return _NEVER if record is None or record.finished_at is None else record.finished_at

    def _is_replaced(self, id: str) -> bool:
        return id in self._records and VALUE_OF in self._records[id].meta


def _nodes(entries: Iterable[ShapeEntry]) -> list[_Node]:
    roots: list[_Node] = []
    path: list[_Node] = []
    for entry in entries:
        node = _Node(entry)
        del path[entry.depth :]
        (path[-1].parts if path else roots).append(node)
        path.append(node)
    return roots


def _by_origin(shape: CanvasShape, added: Sequence[TaskRecord]) -> dict[str, list[TaskRecord]]:
    """The tasks that were added, by the task of the shape that they came from, perhaps over others that were added."""
    origins: dict[str, str] = {}
    found: dict[str, list[TaskRecord]] = {}
    for record in added:
        parent = str(record.meta.get(PARENT_ID))
        origins[record.id] = origin = parent if parent in shape.own_ids else origins.get(parent, parent)
        if record.name not in JOINS:
            found.setdefault(origin, []).append(record)
    return found


def _seconds(record: TaskRecord) -> float | None:
    if record.started_at is None or record.finished_at is None:
        return None
    return (record.finished_at - record.started_at).total_seconds()


_NEVER = datetime.min.replace(tzinfo=UTC)
