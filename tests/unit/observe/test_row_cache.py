"""The dashboard's rows: kept between requests, renewed at their end, and equal to a fresh look."""

from datetime import timedelta

from stem import Stem
from stem.contracts.rollups import Measures, MinuteRow
from stem.core.record import moment
from stem.dashboard.row_cache import WHOLE_SECONDS, RowCache
from stem.observe.rates import history_of, period, read_rows


def test_what_is_over_is_read_once_and_the_end_again() -> None:
    app, now, ticks = Stem("memory://"), 1_800_000_000.0, [0.0]
    store, cache = app.store, RowCache(lambda: ticks[0])

    def count(at: float, succeeded: int) -> None:
        row = MinuteRow(minute=moment(at // 60 * 60), name="a", measures=Measures({"succeeded": succeeded}))
        store.rollups.put([row])

    def shown(at: float) -> list[int]:
        span = period(at, 7 * 86400)
        kept, fresh = (history_of(rows, span) for rows in (cache.read(store, span), read_rows(store, span)))
        assert [point.succeeded for point in kept.points[-3:]] == [point.succeeded for point in fresh.points[-3:]]
        return [point.succeeded for point in kept.points if point.succeeded]

    count(now - 3 * 86400, 5)
    count(now, 7)
    assert shown(now) == [5, 7]
    ticks[0] += 3600
    count(now, 8)
    count(now - 3 * 86400, 6)  # long over: seen when everything is read again
    assert shown(now) == [5, 8]
    ticks[0] += 7200
    later = now + 7200
    count(later, 1)
    assert shown(later) == [5, 8, 1]
    ticks[0] += WHOLE_SECONDS
    assert shown(later) == [6, 8, 1]
    assert period(later, 7 * 86400).since > period(now, 7 * 86400).since - timedelta(seconds=1)
