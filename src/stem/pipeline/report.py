"""What a team wants to know on Monday, out of the lake: figures of a period, and of the one before it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from stem.core.errors import LakeRefused
from stem.core.fingerprint import normalised
from stem.pipeline.lake import Lake
from stem.pipeline.report_slo import Attainment, Objective, attained, success
from stem.pipeline.rollups import gold
from stem.pipeline.rollups.failures import failures
from stem.pipeline.rollups.workers import capacity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SLOTS = 72  # of a plot, at most
_TOP = 10
_STEPS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)


class Latency(msgspec.Struct, frozen=True):
    count: int
    p50: float | None
    p95: float | None
    p99: float | None
    most: float | None


class Figures(msgspec.Struct, frozen=True, rename="camel"):
    """Of a task, or of all, in one period. `wasted_seconds` ran in attempts that did not succeed."""

    enqueued: int
    attempts: int
    succeeded: int
    retried: int
    failed: int
    cancelled: int
    lost: int
    interrupted: int
    throttled: int
    dead_lettered: int
    success: float | None
    wait: Latency
    run: Latency
    run_seconds: float
    wasted_seconds: float


class TaskFigures(msgspec.Struct, frozen=True):
    name: str
    now: Figures
    before: Figures | None


class Failure(msgspec.Struct, frozen=True, rename="camel"):
    fingerprint: str
    task: str
    error_type: str
    message: str
    pattern: str
    attempts: int
    failed: int
    first_at: datetime
    last_at: datetime
    run_seconds: float
    sample_id: str


class WorkerFigures(msgspec.Struct, frozen=True, rename="camel"):
    """`utilisation` is None where the lake does not know how many isolates the worker had."""

    name: str
    attempts: int
    busy_seconds: float
    capacity_seconds: float | None
    utilisation: float | None
    scaled_up: int
    scaled_down: int
    recycled: int


class QueueFigures(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    ready_mean: float
    ready_most: int
    dead: int


class Slot(msgspec.Struct, frozen=True, rename="camel"):
    """One stretch of the plots."""

    at: datetime
    succeeded: int
    retried: int
    failed: int
    other: int
    enqueued: int
    wait_p50: float | None
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None
    busy_seconds: float


class Report(msgspec.Struct, frozen=True, rename="camel"):
    since: datetime
    until: datetime
    made_at: datetime
    task: str | None
    slot_seconds: int
    now: Figures
    before: Figures | None
    tasks: list[TaskFigures]
    failures: list[Failure]
    workers: list[WorkerFigures]
    queues: list[QueueFigures]
    objectives: list[Attainment]
    slots: list[Slot]


def report(
    lake: Lake,
    spark: "SparkSession",
    *,
    since: datetime,
    until: datetime,
    task: str | None = None,
    objectives: Sequence[Objective] = (),
) -> Report:
    """Raises LakeRefused if the lake has nothing of the period."""
    step = _step((until - since).total_seconds())
    rows = _rolled(lake, spark, since, until, task, step)
    now = [row for row in rows if row["period"] == "now"]
    if not now:
        raise LakeRefused(
            f"The lake at {lake.root} has no event since {since:%Y-%m-%d %H:%M} UTC; run 'stem pipeline run --once', or look "
            "further back with --since."
        )
    totals = {row["period"]: row for row in rows if row["view"] == "all"}
    tasks = [row for row in rows if row["view"] == "task" and row["label"]]
    by_name = {period: {row["label"]: row for row in tasks if row["period"] == period} for period in ("now", "before")}
    return Report(
        since=since,
        until=until,
        made_at=datetime.now(UTC),
        task=task,
        slot_seconds=step,
        now=_figures(totals["now"]),
        before=_figures_or_none(totals.get("before")),
        tasks=sorted(
            (
                TaskFigures(name, _figures(row), _figures_or_none(by_name["before"].get(name)))
                for name, row in by_name["now"].items()
            ),
            key=lambda each: -each.now.run_seconds,
        ),
        failures=_failures(lake, spark, since, until, task),
        workers=_workers(lake, spark, since, until, now),
        queues=[_queue(row) for row in now if row["view"] == "queue" and row["samples"]],
        objectives=[attained(each, by_name["now"], totals["now"]) for each in objectives],
        slots=[_slot(row) for row in sorted(now, key=lambda row: row["label"] or "") if row["view"] == "slot"],
    )


def _rolled(
    lake: Lake, spark: "SparkSession", since: datetime, until: datetime, task: str | None, step: int
) -> list[dict[str, Any]]:
    """All views of both periods in one pass over the gold: a row of the table is counted under each view that it is in."""
    from pyspark.sql import functions as F

    start = since - (until - since)
    rows = _between(lake.rollups.frame(spark, _recent(lake.rollups.files(), start)), "minute", start, until)
    if task is not None:
        rows = rows.where(F.col("name") == task)
    since_start = F.unix_timestamp("minute") - int(since.timestamp())
    slot = F.timestamp_seconds(F.floor(since_start / step) * step + int(since.timestamp())).cast("string")
    is_now = F.col("minute") >= F.lit(since)
    views = F.array(
        F.struct(F.lit("all").alias("view"), F.lit("").alias("label")),
        F.struct(F.lit("task"), F.col("name")),
        F.when(is_now, F.struct(F.lit("slot"), slot)),
        F.when(is_now & (F.col("worker") != ""), F.struct(F.lit("worker"), F.col("worker"))),
        F.when(is_now & F.col("samples").isNotNull(), F.struct(F.lit("queue"), F.col("queue"))),
    )
    rows = rows.withColumn("period", F.when(is_now, "now").otherwise("before"))
    rows = rows.withColumn("seen", F.explode(F.array_compact(views))).select(
        "*", F.col("seen.view").alias("view"), F.col("seen.label").alias("label")
    )
    return [row.asDict() for row in gold.over(rows, "period", "view", "label").collect()]


def _failures(lake: Lake, spark: "SparkSession", since: datetime, until: datetime, task: str | None) -> list[Failure]:
    from pyspark.sql import functions as F

    attempts = _between(lake.attempts.frame(spark, _recent(lake.attempts.files(), since)), "finished_at", since, until)
    if task is not None:
        attempts = attempts.where(F.col("name") == task)
    found = failures(attempts).orderBy(F.desc("attempts"), "fingerprint").limit(_TOP).collect()
    return [
        Failure(
            fingerprint=row["fingerprint"],
            task=row["name"],
            error_type=row["error_type"],
            message=(row["message"] or "")[:300],
            pattern=normalised(row["message"] or ""),
            attempts=row["attempts"],
            failed=row["failed"],
            first_at=row["first_at"].replace(tzinfo=UTC),
            last_at=row["last_at"].replace(tzinfo=UTC),
            run_seconds=row["run_seconds"],
            sample_id=row["task_id"],
        )
        for row in found
    ]


def _workers(
    lake: Lake, spark: "SparkSession", since: datetime, until: datetime, now: list[dict[str, Any]]
) -> list[WorkerFigures]:
    from pyspark.sql import functions as F

    events = lake.events.frame(spark).select("kind", "at", "offset", "worker", "data").where(F.col("worker") != "")
    known = {row["worker"]: row["capacity_seconds"] for row in capacity(events, F.lit(since), F.lit(until)).collect()}
    rows = sorted((row for row in now if row["view"] == "worker"), key=lambda row: -row["busy_seconds"])
    return [
        WorkerFigures(
            name=row["label"],
            attempts=row["runs"],
            busy_seconds=row["busy_seconds"],
            capacity_seconds=known.get(row["label"]),
            utilisation=_share(row["busy_seconds"], known.get(row["label"])),
            scaled_up=row["scaled_up"],
            scaled_down=row["scaled_down"],
            recycled=row["recycled"],
        )
        for row in rows
    ]


def _between(rows: "DataFrame", moment: str, since: datetime, until: datetime) -> "DataFrame":
    from pyspark.sql import functions as F

    return rows.where((F.col(moment) >= F.lit(since)) & (F.col(moment) < F.lit(until)))


def _recent(files: Sequence[Any], since: datetime) -> list[Any]:
    """Files of days that are over before the moment cannot hold anything of it."""
    return [file for file in files if file.date >= since.astimezone(UTC).date().isoformat()]


def _step(seconds: float) -> int:
    """Whole minutes, hours or days, so that a plot's stretches begin where people expect."""
    return next((step for step in _STEPS if seconds / step <= SLOTS), int(seconds // SLOTS // 86400 + 1) * 86400)


def _figures_or_none(row: dict[str, Any] | None) -> Figures | None:
    return None if row is None or not (row["runs"] or row["enqueued"]) else _figures(row)


def _figures(row: dict[str, Any]) -> Figures:
    plain = ("enqueued", "succeeded", "retried", "failed", "cancelled", "lost", "interrupted", "throttled")
    return Figures(
        **{name: row[name] for name in plain},
        attempts=row["runs"],
        dead_lettered=row["dead_lettered"],
        success=success(row),
        wait=_latency(row, "wait"),
        run=_latency(row, "run"),
        run_seconds=row["run_seconds"],
        wasted_seconds=row["wasted_seconds"],
    )


def _latency(row: dict[str, Any], what: str) -> Latency:
    return Latency(row[f"{what}s"], *(row[f"{what}_{name}"] for name in ("p50", "p95", "p99", "most")))


def _queue(row: dict[str, Any]) -> QueueFigures:
    return QueueFigures(
        name=row["label"],
        ready_mean=row["ready"] / row["samples"],
        ready_most=int(row["ready_most"] or 0),
        dead=int(row["dead_most"] or 0),
    )


def _slot(row: dict[str, Any]) -> Slot:
    return Slot(
        at=datetime.fromisoformat(row["label"]).replace(tzinfo=UTC),
        succeeded=row["succeeded"],
        retried=row["retried"],
        failed=row["failed"],
        other=row["cancelled"] + row["lost"] + row["interrupted"],
        enqueued=row["enqueued"],
        wait_p50=row["wait_p50"],
        wait_p95=row["wait_p95"],
        run_p50=row["run_p50"],
        run_p95=row["run_p95"],
        busy_seconds=row["busy_seconds"],
    )


def _share(part: float, whole: float | None) -> float | None:
    return None if not whole else part / whole


def period(since_seconds: float, now_seconds: float) -> tuple[datetime, datetime]:
    """The last so many seconds, from a whole minute on, for minutes are what is counted."""
    until = datetime.fromtimestamp(now_seconds, UTC)
    since = (until - timedelta(seconds=since_seconds)).replace(second=0, microsecond=0)
    return since, until
