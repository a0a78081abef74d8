"""Read the data of a report from the lake: one Spark job, each file once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from stem.pipeline.lake.delta import DataFile
from stem.pipeline.lake.lake import Lake
from stem.pipeline.lake.scan import Piece, pieces, scanned
from stem.pipeline.rollups import failures, gold, latency, workers
from stem.pipeline.schemas import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_VIEWS = ("all", "task", "slot", "worker", "queue")
_KEYS = ("view", "period", "label")
_SHAPE = f"view string, period string, label string, {', '.join(gold.COLUMNS)}, heard timestamp"


@dataclass(frozen=True, slots=True)
class _Query:
    """`start` is the start of the period before."""

    start: datetime
    since: datetime
    until: datetime
    task: str | None
    step_seconds: int


@dataclass(frozen=True, slots=True)
class ReportData:
    """`views` has the rollups of all, and by task, slot (in seconds since 1970), worker and queue, of the period and, without
    slots, of the one before. `steps` are events about the isolates of workers; `heard_at` is when each was last busy."""

    views: list[dict[str, Any]]
    failures: list[dict[str, Any]]
    steps: list[tuple[str, datetime, str, str]]
    heard_at: dict[str, datetime]


def read_report_data(
    lake: Lake, spark: "SparkSession", *, since: datetime, until: datetime, task: str | None, step_seconds: int
) -> ReportData:
    import pyarrow as pa

    query = _Query(since - (until - since), since, until, task, step_seconds)
    work = [
        *pieces(lake.rollups, _since(lake.rollups.files(), query.start)),
        *pieces(lake.attempts, _since(lake.attempts.files(), query.since)),
        *pieces(lake.events, lake.events.files()),  # a worker may have started long ago
    ]
    found: dict[str, list[pa.Table]] = {table.root: [] for table in lake.tables}
    for piece, answer in scanned(spark, work, partial(_read, lake, query)):
        found[piece.table.root].append(answer)
    views = _joined(found[lake.rollups.root])
    failed = _joined(found[lake.attempts.root])
    steps = _joined(found[lake.events.root])
    return ReportData(
        views=[] if views is None else latency.shown(gold.merged(_plain(views), _KEYS)).to_pylist(),
        failures=[] if failed is None else failures.merged(failed).to_pylist(),
        steps=[] if steps is None else [(s["worker"], s["at"], s["kind"], s["data"]) for s in steps.to_pylist()],
        heard_at={} if views is None else _heard(views),
    )


def _read(lake: Lake, query: _Query, piece: Piece) -> "pa.Table":
    """Runs on an executor."""
    if piece.table.root == lake.rollups.root:
        return _views(piece, query)
    if piece.table.root == lake.attempts.root:
        return failures.failures(
            piece.read(failures.COLUMNS, _within("finished_at", query.since, query, "fingerprint"))
        )
    import pyarrow.dataset as ds

    return piece.read(("worker", "at", "kind", "data"), ds.field("kind").isin(workers.STEPS))


def _views(piece: Piece, query: _Query) -> "pa.Table":
    """The merged rows of each view, with the newest minute of each as `heard`."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [*gold.KEYS, *(measure.name for measure in gold.MEASURES)]
    rows = piece.read(columns, _within("minute", query.start, query))
    seconds = rows["minute"].cast(pa.int64()).to_numpy() // 1_000_000
    is_now = pa.array(seconds >= query.since.timestamp())
    slots = pa.array(seconds // query.step_seconds * query.step_seconds).cast(pa.string())
    labels = {
        "all": pa.array([""] * len(rows), pa.string()),
        "task": _labelled(rows["name"]),
        "slot": pc.if_else(is_now, slots, None),
        "worker": pc.if_else(is_now, _labelled(rows["worker"]), None),
        "queue": pc.if_else(pc.and_(is_now, pc.is_valid(rows["samples"])), _labelled(rows["queue"]), None),
    }
    period = pc.if_else(is_now, "now", "before")
    answers = []
    for view in _VIEWS:
        mine = rows.append_column("view", pa.array(np.full(len(rows), view))).append_column("period", period)
        mine = mine.append_column("label", labels[view]).filter(pc.is_valid(labels[view]))
        heard = mine.group_by(list(_KEYS), use_threads=False).aggregate([("minute", "max")])
        merged = gold.merged(mine, _KEYS)
        answers.append(_with_heard(merged, heard))
    return pa.concat_tables(answers)


def _with_heard(merged: "pa.Table", heard: "pa.Table") -> "pa.Table":
    import pyarrow as pa

    by_key = {tuple(row[key] for key in _KEYS): row["minute_max"] for row in heard.to_pylist()}
    keys = merged.select(_KEYS).to_pylist()
    newest = [by_key[tuple(row[key] for key in _KEYS)] for row in keys]
    rows = merged.append_column("heard", pa.array(newest, pa.timestamp("us", tz="UTC")))
    return rows.cast(arrow_schema(_SHAPE))


def _heard(views: "pa.Table") -> dict[str, datetime]:
    found: dict[str, datetime] = {}
    for row in views.select([*_KEYS, "heard"]).to_pylist():
        if row["view"] == "worker":
            found[row["label"]] = max(row["heard"], found.get(row["label"], row["heard"]))
    return found


def _plain(views: "pa.Table") -> "pa.Table":
    return views.drop_columns("heard")


def _within(moment: str, since: datetime, query: _Query, needed: str | None = None) -> Any:
    import pyarrow as pa
    import pyarrow.dataset as ds

    kind = pa.timestamp("us", tz="UTC")
    field = ds.field(moment)
    where = (field >= pa.scalar(since, kind)) & (field < pa.scalar(query.until, kind))
    if query.task is not None:
        where &= ds.field("name") == query.task
    return where if needed is None else where & ds.field(needed).is_valid()


def _labelled(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow.compute as pc

    return pc.if_else(pc.not_equal(column, ""), column, None)


def _since(files: Sequence[DataFile], moment: datetime) -> list[DataFile]:
    """Files of the day of the moment and later."""
    return [file for file in files if file.date >= moment.astimezone(UTC).date().isoformat()]


def _joined(tables: "list[pa.Table]") -> "pa.Table | None":
    import pyarrow as pa

    return pa.concat_tables(tables) if tables else None
