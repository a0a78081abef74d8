"""Read the canvases of a store, with how many of their tasks have succeeded and failed."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from stem.client.canvas.shape import CanvasShape, read_shape
from stem.contracts.store import Store
from stem.core.lifecycle import State
from stem.core.prerequisites import CANVAS
from stem.core.record import TaskFilter, TaskRecord
from stem.pipeline.source.batches import microseconds, table_of

if TYPE_CHECKING:
    import pyarrow as pa

_PAGE, _CHUNK = 100, 1000


def of_canvases(store: Store, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
    cursor: str | None = None
    while True:
        page = store.results.page(TaskFilter(name=CANVAS), limit=_PAGE, cursor=cursor)
        yield table_of([_canvas(store, record) for record in page.items], schema)
        if page.cursor is None:
            return
        cursor = page.cursor


def _canvas(store: Store, record: TaskRecord) -> dict[str, Any]:
    shape = read_shape(store, record)
    states = _states(store, shape)
    return {
        "id": record.id,
        "name": shape.name,
        "state": record.state.value,
        "tasks": sum(1 for _ in shape.tasks(aside=False)),
        "succeeded": states[State.SUCCEEDED],
        "failed": states[State.FAILED],
        "submitted_at": microseconds(record.enqueued_at),
        "finished_at": microseconds(record.finished_at),
        "shape": msgspec.json.encode(shape.entries).decode(),
    }


def _states(store: Store, shape: CanvasShape) -> Counter[State]:
    counts: Counter[State] = Counter()
    ids = shape.tasks(aside=False)
    while chunk := list(islice(ids, _CHUNK)):
        counts.update(record.state for record in store.results.get(chunk, past_retention=True).values())
    return counts
