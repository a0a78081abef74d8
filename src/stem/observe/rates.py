"""Rates and percentiles over time, from the rollups that workers and the pipeline put into the store."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from stem.contracts.rollups import Measures, MinuteRow, merged
from stem.contracts.store import Store
from stem.core.histogram import percentile

ENDINGS = ("succeeded", "failed", "retried", "cancelled")
MOST_POINTS = 120
_STEPS_SECONDS = (60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)


class Period(msgspec.Struct, frozen=True):
    """A stretch of time, divided into steps of equal length. `since` is the beginning of the first step."""

    since: datetime
    until: datetime
    step_seconds: int

    @property
    def starts(self) -> list[datetime]:
        count = -(-int((self.until - self.since).total_seconds()) // self.step_seconds)
        return [self.since + timedelta(seconds=self.step_seconds * i) for i in range(max(1, count))]

    def index(self, moment: datetime) -> int:
        return int((moment - self.since).total_seconds()) // self.step_seconds


class RatePoint(msgspec.Struct, frozen=True, kw_only=True):
    """What ended in one step, and how long it ran and waited, in seconds. None: nothing did."""

    at: datetime
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    run_p50: float | None = None
    run_p95: float | None = None
    run_p99: float | None = None
    wait_p50: float | None = None
    wait_p95: float | None = None
    ready: float | None = None  # the mean of the samples of its queues' depths


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The same over a whole period, of one task, queue or worker, or of all."""

    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    run_p50: float | None = None
    run_p95: float | None = None
    run_p99: float | None = None
    wait_p50: float | None = None
    wait_p95: float | None = None

    @property
    def ended(self) -> int:
        """Attempts that ended, whatever came of them."""
        return self.succeeded + self.failed + self.retried + self.cancelled

    @property
    def failure_share(self) -> float | None:
        """Failed for good, of those that succeeded or failed; None if none did."""
        both = self.succeeded + self.failed
        return self.failed / both if both else None


class RateHistory(msgspec.Struct, frozen=True):
    """One row's points over a period, and their totals."""

    points: list[RatePoint]
    totals: Totals

    def values(self, name: str) -> list[float]:
        """One measure as numbers, 0 where there is none: for a sparkline."""
        return [getattr(point, name) or 0.0 for point in self.points]


def period(now: float, seconds: int, *, most_points: int = MOST_POINTS) -> Period:
    """Return the last `seconds` up to now, in the shortest steps that give at most `most_points`."""
    step = next((each for each in _STEPS_SECONDS if seconds / each <= most_points), _STEPS_SECONDS[-1])
    until = (int(now) // step + 1) * step
    since = until - -(-seconds // step) * step
    return Period(datetime.fromtimestamp(since, UTC), datetime.fromtimestamp(until, UTC), step)


def read_rows(store: Store, span: Period, keys: Sequence[str] = ("name", "queue")) -> list[MinuteRow]:
    """Read the period once, and merge it to one row per step and value of these keys: a day of a large fleet has a hundred
    thousand rows. `history_by` and `totals_by` can then group it in several ways."""
    groups: dict[tuple[Any, ...], list[MinuteRow]] = {}
    for row in store.rollups.read(span.since, span.until):
        groups.setdefault((span.index(row.minute), *(getattr(row, key) for key in keys)), []).append(row)
    starts = span.starts
    return [
        MinuteRow(
            minute=starts[place], **dict(zip(keys, values, strict=True)), measures=merged(group, ()).get((), Measures())
        )
        for (place, *values), group in groups.items()
    ]


def history_of(rows: Iterable[MinuteRow], span: Period) -> RateHistory:
    return history_by(rows, span, ()).get((), RateHistory([RatePoint(at=at) for at in span.starts], Totals()))


def history_by(rows: Iterable[MinuteRow], span: Period, by: Sequence[str]) -> dict[tuple[str | None, ...], RateHistory]:
    """Return one history per value of these keys: `name`, `queue`, `worker` or `tenant`."""
    groups: dict[tuple[str | None, ...], list[list[MinuteRow]]] = {}
    starts = span.starts
    for row in rows:
        place = span.index(row.minute)
        if 0 <= place < len(starts):
            key = tuple(getattr(row, each) for each in by)
            groups.setdefault(key, [[] for _ in starts])[place].append(row)
    return {
        key: RateHistory(
            [_point(at, part) for at, part in zip(starts, parts, strict=True)],
            totals_of(row for part in parts for row in part),
        )
        for key, parts in groups.items()
    }


def totals_of(rows: Iterable[MinuteRow]) -> Totals:
    return _totals(merged(rows, ()).get((), Measures()))


def totals_by(rows: Iterable[MinuteRow], by: Sequence[str]) -> dict[tuple[str | None, ...], Totals]:
    return {key: _totals(measures) for key, measures in merged(rows, by).items()}


def _point(at: datetime, rows: list[MinuteRow]) -> RatePoint:
    if not rows:
        return RatePoint(at=at)
    measures = merged(rows, ())[()]
    return RatePoint(at=at, **_counts(measures), **_percentiles(measures.histograms), ready=_ready(rows))


def _totals(measures: Measures) -> Totals:
    return Totals(**_counts(measures), **_percentiles(measures.histograms))


def _counts(measures: Measures) -> dict[str, Any]:
    """Cancelled are those revoked or expired; `revoked` of gold rows includes those that never began."""
    sums = measures.sums
    found = {name: int(sums.get(name, 0)) for name in ("succeeded", "failed", "retried")}
    return {**found, "cancelled": int(sums.get("revoked", 0) + sums.get("expired", 0))}


def _percentiles(histograms: Mapping[str, Mapping[int, int]]) -> dict[str, Any]:
    run, wait = histograms.get("run", {}), histograms.get("wait", {})
    return {
        "run_p50": percentile(run, 0.5),
        "run_p95": percentile(run, 0.95),
        "run_p99": percentile(run, 0.99),
        "wait_p50": percentile(wait, 0.5),
        "wait_p95": percentile(wait, 0.95),
    }


def _ready(rows: Iterable[MinuteRow]) -> float | None:
    """The mean depth of each queue, added up over the queues."""
    means = [
        measures.sums.get("ready", 0) / measures.sums["samples"]
        for measures in merged(rows, ("queue",)).values()
        if measures.sums.get("samples")
    ]
    return sum(means) if means else None
