"""The report: figures of a period from the lake, compared with the period before."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from stem.core.errors import LakeRefused
from stem.core.text.fingerprint import normalised
from stem.pipeline.lake.gaps import Gap, gaps_of
from stem.pipeline.lake.lake import Lake
from stem.pipeline.report.reading import ReportData, read_report_data
from stem.pipeline.report.slo import Attainment, Objective, attained, success
from stem.pipeline.report.span import Span, reaches_back_to, span
from stem.pipeline.rollups.workers import capacity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOTS = 72  # at most, in a plot
_TOP = 10
_STEPS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)


class Latency(msgspec.Struct, frozen=True):
    count: int
    p50: float | None
    p95: float | None
    p99: float | None
    most: float | None


class Figures(msgspec.Struct, frozen=True, rename="camel"):
    """Figures of one task, or of all, in one period. `wasted_seconds` is the run time of attempts that did not succeed."""

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
    replay: str | None  # the command that queues its dead letters again; None if no task failed for good


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
    """One slot of the plots."""

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


class PipelineReport(msgspec.Struct, frozen=True, rename="camel"):
    """`data_since` and `data_until` are the part of the period that the lake has. `before` is None if it has nothing before."""

    since: datetime
    until: datetime
    data_since: datetime
    data_until: datetime
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
    gaps: list[Gap]


def report(
    lake: Lake,
    spark: "SparkSession",
    *,
    since: datetime,
    until: datetime,
    task: str | None = None,
    objectives: Sequence[Objective] = (),
) -> PipelineReport:
    """Compute the report. Raises LakeRefused if the lake has nothing of the period."""
    data = span(lake, since, until, task)
    if data is None:
        raise LakeRefused(
            f"The lake at {lake.root} has no event since {since:%Y-%m-%d %H:%M} UTC; run 'stem pipeline run --once', or look "
            "further back with --since."
        )
    step = _step((data.until - data.since).total_seconds())
    read = read_report_data(lake, spark, since=since, until=until, task=task, step_seconds=step)
    is_comparable = reaches_back_to(lake, since - (until - since), since)
    rows = [row for row in read.views if row["period"] == "now" or is_comparable]
    now = [row for row in rows if row["period"] == "now"]
    totals = {row["period"]: row for row in rows if row["view"] == "all"}
    tasks = [row for row in rows if row["view"] == "task"]
    by_name = {period: {row["label"]: row for row in tasks if row["period"] == period} for period in ("now", "before")}
    return PipelineReport(
        since=since,
        until=until,
        data_since=data.since,
        data_until=data.until,
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
        failures=_failures(read.failures),
        workers=_workers(read, since, until),
        queues=[_queue(row) for row in now if row["view"] == "queue" and row["samples"]],
        objectives=[attained(each, by_name["now"], totals["now"]) for each in objectives],
        slots=_slots(now, data, step),
        gaps=[gap for gap in gaps_of(lake) if gap.until > since and gap.since < until],
    )


def _failures(rows: list[dict[str, Any]]) -> list[Failure]:
    top = sorted(rows, key=lambda row: (-row["attempts"], row["name"], row["fingerprint"]))[:_TOP]
    return [
        Failure(
            fingerprint=row["fingerprint"],
            task=row["name"],
            error_type=row["error_type"],
            message=(row["error_message"] or "")[:300],
            pattern=normalised(row["error_message"] or ""),
            attempts=row["attempts"],
            failed=row["failed"],
            first_at=row["first_at"],
            last_at=row["last_at"],
            run_seconds=row["run_seconds"] or 0.0,
            sample_id=row["task_id"],
            replay=_replay(row) if row["failed"] else None,
        )
        for row in top
    ]


def _replay(row: dict[str, Any]) -> str:
    return shlex.join(["stem", "pipeline", "triage", "--replay", row["fingerprint"], "--name", row["name"]])


def _workers(read: ReportData, since: datetime, until: datetime) -> list[WorkerFigures]:
    rows = sorted((row for row in read.views if row["view"] == "worker"), key=lambda row: -row["busy_seconds"])
    known = capacity(read.steps, read.heard_at, since, until)
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


def _step(seconds: float) -> int:
    """Slots of whole minutes, hours or days."""
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


def _slots(rows: list[dict[str, Any]], data: Span, step: int) -> list[Slot]:
    """Slots within the data; samples of queues may be later."""
    found = [_slot(row) for row in sorted(rows, key=lambda row: row["label"]) if row["view"] == "slot"]
    return [slot for slot in found if data.since - timedelta(seconds=step) < slot.at < data.until]


def _slot(row: dict[str, Any]) -> Slot:
    return Slot(
        at=datetime.fromtimestamp(int(row["label"]), UTC),
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
    """The last `since_seconds`, beginning with a whole minute."""
    until = datetime.fromtimestamp(now_seconds, UTC)
    since = (until - timedelta(seconds=since_seconds)).replace(second=0, microsecond=0)
    return since, until
