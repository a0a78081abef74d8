"""Keep the rollups of a period for a while: every open page reads them, and a week of a large fleet takes seconds to add up."""

import time
from collections.abc import Callable
from datetime import timedelta
from threading import Lock

import msgspec

from stem.contracts.rollups import MinuteRow
from stem.contracts.store import Store
from stem.observe.rates import Period, read_rows

LEAST_SECONDS = 5.0  # workers write no more often
SHARE = 0.1  # of a step, for longer periods
STEPS_AGAIN = 2  # that are read again each time: workers, and the pipeline a little later, still write them
WHOLE_SECONDS = 6 * 3600.0  # after which everything is read again: a pipeline that was behind has replaced older rows


class _Kept(msgspec.Struct, frozen=True):
    """The rows of a period, when they are due to be read again, and when all of them are."""

    span: Period
    rows: list[MinuteRow]
    due_at: float
    whole_at: float


class RowCache:
    """Safe from any thread. Of several that ask for a period at once, one reads it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._kept: dict[tuple[int, int], _Kept] = {}

    def read(self, store: Store, span: Period) -> list[MinuteRow]:
        key = span.step_seconds, len(span.starts)
        with self._lock:
            kept, now = self._kept.get(key), self._clock()
            if kept is None or now >= kept.whole_at:
                kept = self._keep(span, read_rows(store, span), now + WHOLE_SECONDS)
            elif now >= kept.due_at or kept.span != span:
                kept = self._keep(span, _renewed(store, span, kept), kept.whole_at)
            self._kept[key] = kept
            return kept.rows

    def _keep(self, span: Period, rows: list[MinuteRow], whole_at: float) -> _Kept:
        return _Kept(span, rows, self._clock() + max(LEAST_SECONDS, span.step_seconds * SHARE), whole_at)


def _renewed(store: Store, span: Period, kept: _Kept) -> list[MinuteRow]:
    """What is kept of steps that are over, and the latest steps as they are now."""
    again = kept.span.until - timedelta(seconds=kept.span.step_seconds * STEPS_AGAIN)
    since = min(max(span.since, again), span.until)
    latest = Period(since, span.until, span.step_seconds)
    return [row for row in kept.rows if span.since <= row.minute < since] + read_rows(store, latest)
