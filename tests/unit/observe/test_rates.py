"""Rates over time: rows become points, and points add up to totals."""

from datetime import UTC, datetime, timedelta

from stem.contracts.rollups import Measures, MinuteRow
from stem.core.histogram import bucket
from stem.observe.rates import history_by, history_of, period, totals_by

NOW = datetime(2030, 1, 31, 12, 0, 30, tzinfo=UTC)


def row(minutes_ago: int, *, name: str = "a", worker: str = "w", run: float | None = None, **sums: int) -> MinuteRow:
    minute = NOW.replace(second=0) - timedelta(minutes=minutes_ago)
    histograms = {} if run is None else {"run": {bucket(run): 1}}
    return MinuteRow(minute=minute, name=name, queue="q", worker=worker, measures=Measures(sums, {}, histograms))


def test_an_hour_has_a_point_a_minute_and_the_last_holds_now() -> None:
    span = period(NOW.timestamp(), 3600)
    assert (len(span.starts), span.step_seconds) == (60, 60)
    assert span.starts[-1] <= NOW < span.until


def test_a_week_has_at_most_120_points() -> None:
    assert len(period(NOW.timestamp(), 7 * 86400).starts) <= 120


def test_rows_of_several_workers_add_up_in_their_minute() -> None:
    span = period(NOW.timestamp(), 3600)
    history = history_of([row(0, succeeded=3), row(0, worker="x", succeeded=4), row(5, failed=1)], span)
    assert history.points[-1].succeeded == 7
    assert history.points[-6].failed == 1
    assert (history.totals.succeeded, history.totals.failed, history.totals.failure_share) == (7, 1, 1 / 8)


def test_what_lies_outside_the_period_is_left_out() -> None:
    span = period(NOW.timestamp(), 3600)
    assert history_of([row(61, succeeded=9), row(-1, succeeded=9)], span).totals.ended == 0


def test_percentiles_are_of_merged_histograms() -> None:
    rows = [row(0, run=0.1), *(row(0, worker=f"w{i}", run=1.0) for i in range(9))]
    totals = totals_by(rows, ("name",))[("a",)]
    assert totals.run_p50 is not None and abs(totals.run_p50 - 1.0) < 0.02
    assert totals.wait_p50 is None


def test_the_mean_depth_of_each_queue_is_added_up() -> None:
    minute = NOW.replace(second=0)
    rows = [
        MinuteRow(minute=minute, queue=queue, worker=worker, measures=Measures({"samples": 2, "ready": ready}))
        for queue, worker, ready in (("a", "w1", 10), ("a", "w2", 10), ("b", "w1", 4))
    ]
    assert history_of(rows, period(NOW.timestamp(), 3600)).points[-1].ready == 5 + 2


def test_a_period_without_rows_has_points_without_values() -> None:
    history = history_of([], period(NOW.timestamp(), 3600))
    assert len(history.points) == 60 and history.points[0].run_p95 is None
    assert history_by([], period(NOW.timestamp(), 3600), ("name",)) == {}
