"""The shape of a canvas: which tasks it has, and how they are composed. Read from the join that stands for it."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from stem.client.run.context import CANVAS_ID
from stem.contracts.store import Store
from stem.core.errors import EnvelopeUnreadable, TaskNotFound
from stem.core.prerequisites import CANVAS, JOINS
from stem.core.record import TaskFilter, TaskRecord

PAGE = 1000


class ShapeEntry(msgspec.Struct, frozen=True):
    """One line of the shape, indented by `depth`. `ids` are tasks of one name that follow each other; `id` is a join's; `after`
    has the nodes that a node of a workflow waits for. `aside`: a link or error callback, which is no part of the result."""

    kind: str
    depth: int
    name: str | None = None
    id: str | None = None
    ids: list[str] = []
    after: list[str] = []
    aside: bool = False


class CanvasShape(msgspec.Struct, frozen=True, dict=True):
    name: str | None
    entries: list[ShapeEntry]

    @cached_property
    def own_ids(self) -> frozenset[str]:
        """All of its tasks, those aside included."""
        return frozenset(id for entry in self.entries for id in entry.ids)

    def tasks(self, *, aside: bool) -> Iterator[str]:
        """The ids of its tasks, in the order of the composition; the callbacks aside or all others."""
        return (id for entry in self.entries if entry.aside is aside for id in entry.ids)

    def joins(self) -> list[str]:
        return [entry.id for entry in self.entries if entry.id is not None]


def read_shape(store: Store, record: TaskRecord) -> CanvasShape:
    """The shape of a canvas, by the record of its join. One whose join was revoked has no shape left: its tasks are looked
    for. Raises TaskNotFound."""
    if record.name != CANVAS:
        whole = record.meta.get(CANVAS_ID)
        remedy = "ask app.handle(id)" if whole is None else f"that of its canvas is {whole}"
        raise TaskNotFound(f"{record.id} is the id of a task and not of a canvas; {remedy}.")
    arguments = _arguments(store, record)
    if arguments is not None:
        return CanvasShape(arguments.get("name"), msgspec.convert(arguments.get("shape", []), list[ShapeEntry]))
    found = [each for each in members_found(store, record) if each.name not in JOINS]
    return CanvasShape(None, [ShapeEntry("task", 0, each.name, None, [each.id]) for each in reversed(found)])


def members_found(store: Store, record: TaskRecord, *, since: datetime | None = None) -> Iterator[TaskRecord]:
    """All tasks and joins that say they are of this canvas, also those that were spawned or took the place of others, newest
    first. Looks through all records that were enqueued since then."""
    where, cursor = TaskFilter(meta={CANVAS_ID: record.id}, since=since), None
    while True:
        page = store.results.page(where, limit=PAGE, cursor=cursor)
        yield from (each for each in page.items if each.id != record.id)
        if (cursor := page.cursor) is None:
            return


def _arguments(store: Store, record: TaskRecord) -> Mapping[str, Any] | None:
    if record.payload is not None:
        found = record.result()
        return found if isinstance(found, dict) else None
    stored = store.broker.find(record.id)
    try:
        return None if stored is None else msgspec.json.decode(stored.body, type=_Stored).args
    except msgspec.MsgspecError as error:
        raise EnvelopeUnreadable(
            f"The canvas {record.id} cannot be read ({error}); its envelope is damaged."
        ) from error


class _Stored(msgspec.Struct):
    args: dict[str, Any]
