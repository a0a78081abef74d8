"""Attempts out of events: one row for each event that ended an attempt."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from stem.pipeline import shapes
from stem.pipeline.attempts import ENDINGS, fingerprint_or_none, outcome, waits_from

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_PLAIN = ("succeeded", "retried")  # endings that say all by their kind; the others have a reason


class _Told(msgspec.Struct, rename="camel"):
    reason: str | None = None
    due_at: str | None = None


_told = msgspec.json.Decoder(_Told).decode


def attempts(events: "DataFrame") -> "DataFrame":
    return events.mapInArrow(_in_batches, shapes.ATTEMPTS)


def attempts_of(events: "pa.Table") -> "pa.Table":
    """The same for events at hand, a column at a time; what only failures have is looked at only for them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = events.filter(pc.is_in(events["kind"], pa.array([kind.value for kind in ENDINGS])))
    reasons, outcomes = _judged(ends)
    columns: dict[str, Any] = {
        "outcome": pa.array(outcomes, pa.string()),
        "reason": pa.array(reasons, pa.string()),
        "fingerprint": pa.array(_fingerprints(ends), pa.string()),
        "finished_at": ends["at"],
        "wait_seconds": pc.if_else(pc.equal(ends["attempt"], 0), _seconds(_waits_from(ends), ends["started_at"]), None),
        "run_seconds": _seconds(ends["started_at"], ends["at"]),
    }
    named = shapes.names(shapes.ATTEMPTS)
    rows = pa.table([columns[name] if name in columns else ends[name] for name in named], names=named)
    return rows.filter(pc.is_valid(rows["outcome"]))


def _in_batches(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    for batch in batches:
        yield from attempts_of(pa.Table.from_batches([batch])).to_batches()


def _judged(ends: "pa.Table") -> tuple[list[str | None], list[str | None]]:
    """Reason and outcome of each."""
    import pyarrow.compute as pc

    outcomes: list[str | None] = ends["kind"].to_pylist()
    reasons: list[str | None] = [None] * len(outcomes)
    has_begun = pc.is_valid(ends["started_at"])
    for row, kind in enumerate(outcomes):
        if kind not in _PLAIN and kind is not None:
            reasons[row] = _told(ends["data"][row].as_py()).reason
            outcomes[row] = outcome(kind, 0 if has_begun[row].as_py() else None, reasons[row])
    return reasons, outcomes


def _waits_from(ends: "pa.Table") -> "pa.ChunkedArray":
    """When each was enqueued, or was due if that was later."""
    import pyarrow as pa
    import pyarrow.compute as pc

    delayed = pc.indices_nonzero(pc.match_substring(ends["data"], '"dueAt"')).to_pylist()
    if not delayed:
        return ends["enqueued_at"]
    moments = ends["enqueued_at"].cast(pa.int64()).to_pylist()
    for row in delayed:
        moments[row] = waits_from(moments[row], _told(ends["data"][row].as_py()).due_at)
    return pa.chunked_array([pa.array(moments, pa.int64())])


def _fingerprints(ends: "pa.Table") -> list[str | None]:
    kinds, messages = ends["error_type"], ends["error_message"]
    if kinds.null_count == len(ends):
        return [None] * len(ends)
    pairs = zip(kinds.to_pylist(), messages.to_pylist(), strict=True)
    return [fingerprint_or_none(kind, message) for kind, message in pairs]


def _seconds(start: "pa.ChunkedArray", end: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Never negative: a start is dated back by the worker's clock, an end is the store's."""
    import pyarrow as pa
    import pyarrow.compute as pc

    micros = pc.subtract(end.cast(pa.int64()), start.cast(pa.int64()))
    return pc.divide(pc.max_element_wise(micros.cast(pa.float64()), 0.0, skip_nulls=False), 1e6)
