"""Buckets of tokens, by an imagined clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stem.core.decisions.ratelimit import GRACE_SECONDS, Level, Rate, default_burst, full_at, parse_rate, take

BEGIN = 1_800_000_000.0


class Taker:
    """One bucket, and the time as the test tells it."""

    def __init__(self, pace_seconds: float, burst: float) -> None:
        self.pace_seconds, self.burst = pace_seconds, burst
        self.level: Level | None = None
        self.now = BEGIN

    def take(self, random_fraction: float = 0.5) -> float:
        answer, self.level = take(
            self.level, pace_seconds=self.pace_seconds, burst=self.burst, now=self.now, random_fraction=random_fraction
        )
        return answer


@pytest.mark.parametrize(("text", "burst"), [("5/s", 5.0), ("120/m", 2.0), ("1/h", 1.0), ("30/m", 1.0), ("5/10s", 1.0)])
def test_the_default_burst_is_a_seconds_worth_and_at_least_one(text: str, burst: float) -> None:
    assert default_burst(parse_rate(text)) == burst
    assert default_burst(Rate(2.5, 1.0)) == 2.5


def test_the_first_refusals_get_a_token_each() -> None:
    taker = Taker(pace_seconds=0.5, burst=2)
    assert [taker.take() for _ in range(5)] == [0.0, 0.0, 0.5, 1.0, 1.5]
    taker.now += 0.25
    assert taker.take() == pytest.approx(1.75)


def test_each_that_comes_back_when_told_is_granted() -> None:
    taker = Taker(pace_seconds=0.1, burst=1)
    assert taker.take() == 0.0
    waits = [taker.take() for _ in range(50)]
    for wait in waits:
        taker.now = BEGIN + wait
        assert taker.take() == 0.0


def test_those_that_come_back_a_little_late_cost_nobody_a_token() -> None:
    taker = Taker(pace_seconds=0.1, burst=1)
    assert taker.take() == 0.0
    waits = [taker.take() for _ in range(50)]
    for n, wait in enumerate(waits):
        taker.now = BEGIN + wait + n * 7 % 10 / 10 * 0.045
        assert taker.take() == 0.0, n


def test_past_the_horizon_chance_decides_and_nothing_changes() -> None:
    taker = Taker(pace_seconds=1, burst=1)
    waits = [taker.take() for _ in range(61)]
    assert waits == [float(n) for n in range(61)]
    before = taker.level
    assert (taker.take(random_fraction=0.0), taker.take(random_fraction=1.0)) == (30.0, 60.0)
    assert taker.level is before


def test_a_slow_rate_has_a_longer_horizon() -> None:
    taker = Taker(pace_seconds=3600, burst=1)
    assert [taker.take(random_fraction=0.0) for _ in range(4)] == [0.0, 3600.0, 7200.0, 3600.0]


def test_a_changed_pace_voids_what_was_promised() -> None:
    taker = Taker(pace_seconds=3600, burst=1)
    for _ in range(9):
        taker.take()
    taker.pace_seconds = 0.01
    taker.now += 0.005
    assert taker.take() == pytest.approx(0.005, abs=1e-6)


def test_a_clock_set_back_neither_grants_nor_locks_up() -> None:
    taker = Taker(pace_seconds=1, burst=1)
    for _ in range(90):
        taker.take()
    taker.now -= 86400
    assert 30 <= taker.take() <= 60
    taker.now += 1
    assert taker.take() == 0.0


def test_a_level_that_is_full_again_is_as_good_as_none() -> None:
    taker = Taker(pace_seconds=2, burst=3)
    for _ in range(5):
        taker.take()
    assert taker.level is not None
    taker.now = full_at(taker.level, taker.burst)
    assert taker.now == BEGIN + 6
    assert [taker.take() for _ in range(4)] == [0.0, 0.0, 0.0, 2.0]


@given(
    pace_seconds=st.floats(0.01, 5000),
    burst=st.floats(1, 50),
    gaps=st.lists(st.floats(0, 3), min_size=1, max_size=200),
)
def test_the_rate_holds_and_no_token_is_lost_for_any_arrivals(
    pace_seconds: float, burst: float, gaps: list[float]
) -> None:
    taker = Taker(pace_seconds, burst)
    grants = 0
    for gap in gaps:
        taker.now += gap * pace_seconds
        answer = taker.take()
        assert 0.0 <= answer <= max(60.0, 2 * pace_seconds) * (1 + 1e-9)
        grants += answer == 0.0
        assert taker.level is not None and -GRACE_SECONDS / pace_seconds <= taker.level.tokens <= burst
        assert full_at(taker.level, burst) > taker.now
    elapsed = (taker.now - BEGIN) / pace_seconds
    assert grants <= elapsed + burst + 1e-3
    if max(gaps) <= 1 and answer > 0:  # never full, and empty at the end: all that came was given away
        assert grants >= min(len(gaps), elapsed - gaps[0] + burst - 1) - 1e-3
