"""A canvas as a tree of its tasks, with what became of each, and the path that decided how long it took."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from stem.client.canvas.shape import CanvasShape, ShapeEntry
from stem.core.lifecycle import State
from stem.core.record import TaskRecord

ALIKE = 8  # tasks of one name that follow each other are summed up beyond this many
SEQUENCES = frozenset({"chain", "chord"})  # their parts run one after the other


class TreeLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of the tree: a task, several alike, or what holds the lines below it together. Of several, `seconds` is the
    longest, and the times are the first start and the last end. `is_critical`: the canvas could not have ended before it."""

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
    aside: bool = False


class _Node:
    """An entry of the shape with the entries below it."""

    def __init__(self, entry: ShapeEntry) -> None:
        self.entry = entry
        self.parts: list[_Node] = []


def tree_lines(shape: CanvasShape, records: Mapping[str, TaskRecord]) -> list[TreeLine]:
    """The lines of the tree, in the order of the composition."""
    roots = _nodes(shape.entries)
    critical = {
        id
        for root in _last([root for root in roots if not root.entry.aside], records)
        for id in _critical(root, records, in_sequence=True)
    }
    return [line for root in roots for line in _lines(root, records, critical)]


def _nodes(entries: Iterable[ShapeEntry]) -> list[_Node]:
    roots: list[_Node] = []
    path: list[_Node] = []
    for entry in entries:
        node = _Node(entry)
        del path[entry.depth :]
        (path[-1].parts if path else roots).append(node)
        path.append(node)
    return roots


def _lines(node: _Node, records: Mapping[str, TaskRecord], critical: set[str]) -> Iterator[TreeLine]:
    entry = node.entry
    if entry.kind != "task":
        yield TreeLine(
            depth=entry.depth, kind=entry.kind, name=entry.name or entry.kind, id=entry.id, aside=entry.aside
        )
    elif len(entry.ids) > ALIKE:
        yield _summed(entry, records, critical)
    else:
        yield from (_line(entry, id, records.get(id), is_critical=id in critical) for id in entry.ids)
    for part in node.parts:
        yield from _lines(part, records, critical)


def _line(entry: ShapeEntry, id: str, record: TaskRecord | None, *, is_critical: bool) -> TreeLine:
    return TreeLine(
        depth=entry.depth,
        kind="task",
        name=entry.name or "",
        id=id,
        state=None if record is None else record.state,
        seconds=None if record is None else _seconds(record),
        started_at=None if record is None else record.started_at,
        finished_at=None if record is None else record.finished_at,
        is_critical=is_critical,
        aside=entry.aside,
    )


def _summed(entry: ShapeEntry, records: Mapping[str, TaskRecord], critical: set[str]) -> TreeLine:
    found = [records[id] for id in entry.ids if id in records]
    seconds = [each for record in found if (each := _seconds(record)) is not None]
    return TreeLine(
        depth=entry.depth,
        kind="task",
        name=entry.name or "",
        counts=dict(Counter(record.state for record in found)),
        seconds=max(seconds, default=None),
        started_at=min((record.started_at for record in found if record.started_at is not None), default=None),
        finished_at=max((record.finished_at for record in found if record.finished_at is not None), default=None),
        is_critical=not critical.isdisjoint(entry.ids),
        aside=entry.aside,
    )


def _critical(node: _Node, records: Mapping[str, TaskRecord], *, in_sequence: bool) -> Iterator[str]:
    """The tasks on the path that ended last: all parts of a sequence, and of what runs side by side the last to end."""
    entry = node.entry
    parts = [part for part in node.parts if not part.entry.aside]
    if entry.kind == "task":
        yield from entry.ids if in_sequence else [max(entry.ids, key=lambda id: _end(records.get(id)))]
        return
    if entry.kind == "workflow":
        return  # the shape does not say which of its tasks wait for which
    is_sequence = entry.kind in SEQUENCES
    for part in parts if is_sequence else _last(parts, records):
        yield from _critical(part, records, in_sequence=is_sequence)


def _last(nodes: list[_Node], records: Mapping[str, TaskRecord]) -> list[_Node]:
    return [max(nodes, key=lambda node: max(_ends(node, records), default=_NEVER))] if nodes else []


def _ends(node: _Node, records: Mapping[str, TaskRecord]) -> Iterator[datetime]:
    yield from (_end(records.get(id)) for id in node.entry.ids)
    for part in node.parts:
        yield from _ends(part, records)


def _end(record: TaskRecord | None) -> datetime:
    return _NEVER if record is None or record.finished_at is None else record.finished_at


def _seconds(record: TaskRecord) -> float | None:
    if record.started_at is None or record.finished_at is None:
        return None
    return (record.finished_at - record.started_at).total_seconds()


_NEVER = datetime.min.replace(tzinfo=UTC)
