"""What is made up for after an absence, and how far an instant may be delayed."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stem.calendar.jitter import jittered
from stem.calendar.misfire import MOST_AT_ONCE, MisfirePolicy, missed
from stem.calendar.parse import parse
from unit.calendar.instants import at

SINCE, UNTIL = at("2026-11-01T00:00"), at("2026-12-01T00:00")
HOURLY = parse("@hourly")


@pytest.mark.parametrize(("policy", "count"), [("skip", 0), ("once", 1), ("all", 720)])
def test_case_21_a_month_of_absence_costs_one_run_or_none_unless_all_are_wanted(
    policy: MisfirePolicy, count: int
) -> None:
    assert len(missed(HOURLY, SINCE, UNTIL, policy)) == count


def test_once_is_the_last_instant() -> None:
    assert missed(HOURLY, SINCE, UNTIL - timedelta(minutes=1), "once") == [at("2026-11-30T23:00")]
    assert missed(HOURLY, SINCE, UNTIL, "once") == [UNTIL]


def test_nothing_was_missed_between_two_instants() -> None:
    assert missed(HOURLY, at("2026-11-01T00:00"), at("2026-11-01T00:59"), "once") == []
    assert missed(HOURLY, UNTIL, SINCE, "all") == []


def test_case_22_what_is_older_than_the_window_is_not_made_up_for() -> None:
    assert len(missed(HOURLY, SINCE, UNTIL, "all", timedelta(hours=3))) == 3
    assert missed(parse("0 12 * * *"), SINCE, UNTIL, "once", timedelta(hours=3)) == []


def test_all_is_bounded_and_goes_on_from_the_last() -> None:
    every_second = parse("* * * * * *")
    first = missed(every_second, SINCE, UNTIL, "all")
    assert len(first) == MOST_AT_ONCE
    assert missed(every_second, first[-1], UNTIL, "all", at_most=1) == [first[-1] + timedelta(seconds=1)]


@pytest.mark.parametrize("expression", ["* * * * * *", "*/7 * * * *", "0 0 1 1 *", "every 7s", "at 2026-11-05T00:00Z"])
def test_once_is_the_last_of_all(expression: str) -> None:
    entry, until = parse(expression, "Europe/Berlin"), at("2026-11-08T00:00:03")
    everything: list[datetime] = []
    instant = entry.next_after(until - timedelta(minutes=50))
    while instant is not None and instant <= until:
        everything.append(instant)
        instant = entry.next_after(instant)
    assert missed(entry, until - timedelta(minutes=50), until, "once") == everything[-1:]


@given(gap=st.integers(1, 10**10), jitter=st.floats(0, 1e6), fraction=st.floats(0, 1))
def test_case_30_jitter_never_crosses_the_next_instant(gap: int, jitter: float, fraction: float) -> None:
    following = SINCE + timedelta(microseconds=gap)
    delayed = jittered(SINCE, following, jitter, fraction)
    assert SINCE <= delayed < following
    assert delayed - SINCE <= timedelta(seconds=jitter)


def test_without_a_next_instant_jitter_is_bounded_by_itself() -> None:
    assert jittered(SINCE, None, 60.0, 0.5) == SINCE + timedelta(seconds=30)
    assert jittered(SINCE, None, 0.0, 0.5) == SINCE
