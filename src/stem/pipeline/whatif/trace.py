"""Load the trace of a what-if from the lake or from a file."""

import os
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from stem.core.errors import ConfigError
from stem.pipeline.whatif.simulate import Trace

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def trace_of(rows: Iterable[tuple[float, float]]) -> Trace:
    """A trace of arrivals and run times, in any order and on any clock."""
    ordered = sorted((float(arrival), max(0.0, float(run))) for arrival, run in rows)
    first = ordered[0][0] if ordered else 0.0
    return Trace([arrival - first for arrival, _ in ordered], [run for _, run in ordered])


def of_lake(spark: "SparkSession", root: str, *, queues: tuple[str, ...] = (), since: datetime | None = None) -> Trace:
    """All attempts that have run. A retry counts as due when it started. Raises LakeRefused."""
    from stem.pipeline.lake.lake import open_lake

    return of_attempts(open_lake(root).attempts.frame(spark), queues=queues, since=since)


def of_attempts(attempts: "DataFrame", *, queues: tuple[str, ...] = (), since: datetime | None = None) -> Trace:
    from pyspark.sql import functions as F

    rows = attempts.where("started_at IS NOT NULL AND run_seconds IS NOT NULL")
    if queues:
        rows = rows.where(F.col("queue").isin(*queues))
    if since is not None:
        rows = rows.where(F.col("enqueued_at") >= F.lit(since))
    due_at = F.when(F.col("attempt") == 0, F.col("enqueued_at")).otherwise(F.col("started_at"))
    found = rows.select(due_at.cast("double").alias("arrival"), F.col("run_seconds").cast("double"))
    return _of_table(found.toArrow())


def of_file(path: str) -> Trace:
    """Columns `arrival` (or `enqueued_at`) and `run_seconds` of a .csv or .parquet file, or a .json file that holds a Trace.
    Raises ConfigError."""
    ending = os.path.splitext(path)[1].lower()
    try:
        match ending:
            case ".json":
                with open(path, "rb") as file:
                    told = msgspec.json.decode(file.read(), type=Trace)
                return trace_of(zip(told.arrivals, told.runs, strict=True))
            case ".csv":
                from pyarrow import csv

                return _of_table(csv.read_csv(path))
            case ".parquet":
                import pyarrow.parquet as pq

                return _of_table(pq.read_table(path))
            case _:
                raise ConfigError(f"The trace {path} is no .json, .csv or .parquet file; write it as one of them.")
    except (OSError, ValueError, KeyError, msgspec.MsgspecError) as error:
        raise ConfigError(
            f"The trace {path} cannot be read ({error}); give columns arrival or enqueued_at, and run_seconds."
        ) from error


def shared(trace: Trace, workers: int) -> Trace:
    """The share of one of `workers` workers that take turns."""
    return Trace(trace.arrivals[::workers], trace.runs[::workers])


def _of_table(table: "pa.Table") -> Trace:
    import pyarrow as pa

    name = "arrival" if "arrival" in table.column_names else "enqueued_at"
    arrivals, runs = table.column(name), table.column("run_seconds")
    if pa.types.is_timestamp(arrivals.type):
        arrivals = arrivals.cast(pa.timestamp("us", tz=arrivals.type.tz)).cast(pa.int64())
        return trace_of(zip((us / 1e6 for us in arrivals.to_pylist()), runs.to_pylist(), strict=True))
    return trace_of(zip(arrivals.to_pylist(), runs.to_pylist(), strict=True))
