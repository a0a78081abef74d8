"""The gold table: partial sums per minute, task, queue, worker and tenant, merged when they are read."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from stem.pipeline.rollups import failures, latency, queues, throughput, workers
from stem.pipeline.rollups.facts import KEYS as KEYS
from stem.pipeline.rollups.facts import facts

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import DataFrame

ROLLUPS = (throughput, latency, failures, workers, queues)  # to add one: a file with MEASURES, and its name here
MEASURES = tuple(measure for rollup in ROLLUPS for measure in rollup.MEASURES)
COLUMNS = [f"{measure.name} {measure.type}" for measure in MEASURES]
SHAPE = ", ".join(["minute timestamp, name string, queue string, worker string, tenant string", *COLUMNS])
_SHOWN = [*(column for column in COLUMNS if not column.endswith(">")), latency.SHOWN]


def partials(events: "pa.Table", attempts: "pa.Table") -> "pa.Table":
    """The partial rows of one batch. Late events add rows for minutes that have rows already; readers merge them."""
    found = facts(events, attempts)
    groups, keys = _grouped(found.keys)
    return _table(keys, [measure.partial(found, groups, len(keys)) for measure in MEASURES])


def merged(rows: "pa.Table", by: Sequence[str] = KEYS) -> "pa.Table":
    """One row per key, merged from all batches."""
    groups, keys = _grouped(rows.select(by))
    return _table(keys, [measure.merged(rows[measure.name], groups, len(keys)) for measure in MEASURES])


def over(gold: "DataFrame", *by: str) -> "DataFrame":
    """One row per value of these columns, with percentiles in place of histograms.

    Partitions are merged first, then their results. In Arrow: planning Spark's own aggregates takes longer than this runs."""
    keys = [f"{name} {gold.schema[name].dataType.simpleString()}" for name in by]
    rows = gold.select(*by, *(measure.name for measure in MEASURES))
    some = rows.mapInArrow(partial(_merge, by, False), ", ".join([*keys, *COLUMNS]))
    return some.repartition(1).mapInArrow(partial(_merge, by, True), ", ".join([*keys, *_SHOWN]))


def _merge(by: Sequence[str], is_last: bool, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    waiting = list(batches)
    if waiting:
        rows = merged(pa.Table.from_batches(waiting), by)
        yield from (latency.shown(rows).select(_names(by)) if is_last else rows).to_batches()


def _names(by: Sequence[str]) -> list[str]:
    return [*by, *(column.split()[0] for column in ", ".join(_SHOWN).split(", "))]


def _grouped(keys: "pa.Table") -> "tuple[np.ndarray[Any, Any], pa.Table]":
    """The group of each row, and each group's key."""
    import numpy as np

    groups = np.zeros(len(keys), np.int64)
    first = np.zeros(min(1, len(keys)), np.int64)
    for column in keys.columns if len(keys) else ():
        coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        together = groups * max(1, len(coded.dictionary)) + coded.indices.to_numpy()
        _, first, groups = np.unique(together, return_index=True, return_inverse=True)
    return groups, keys.take(first)


def _table(keys: "pa.Table", columns: "list[pa.Array]") -> "pa.Table":
    import pyarrow as pa

    return pa.table([*keys.columns, *columns], names=[*keys.column_names, *(measure.name for measure in MEASURES)])
