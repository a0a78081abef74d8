"""`next_after` always moves forward, whatever the entry and the moment."""

from datetime import UTC, datetime, timedelta, timezone
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stem.calendar.entry import Entry
from stem.calendar.interval import Interval
from stem.calendar.parse import parse
from stem.calendar.words import in_words
from stem.core.errors import InvalidSchedule
from unit.calendar.expressions import expression
from unit.calendar.instants import at, following

ZONES = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll", "America/Santiago", "Asia/Kathmandu"]
MOMENTS = st.datetimes(datetime(1975, 1, 1), datetime(2150, 1, 1), timezones=st.just(UTC))


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 10**9), zone=st.sampled_from(ZONES), moment=MOMENTS)
def test_a_cron_entry_moves_forward(seed: int, zone: str, moment: datetime) -> None:
    try:
        entry = parse(expression(Random(seed)), zone)
    except InvalidSchedule:
        return  # a date that never comes
    check(entry, moment)


@given(seconds=st.integers(1, 10**8), anchor=MOMENTS, moment=MOMENTS)
def test_an_interval_moves_forward_by_whole_periods_from_its_anchor(
    seconds: int, anchor: datetime, moment: datetime
) -> None:
    entry = Interval(timedelta(seconds=seconds), anchor)
    check(entry, moment)
    found = entry.next_after(moment)
    assert found is not None and found - moment <= entry.every
    assert (found - anchor) % entry.every == timedelta(0)


@settings(max_examples=50, deadline=None)
@given(
    event=st.sampled_from(["dawn", "sunrise", "noon", "sunset", "dusk"]),
    latitude=st.floats(-70, 70),
    longitude=st.floats(-180, 180),
    moment=MOMENTS,
)
def test_a_solar_entry_moves_forward(event: str, latitude: float, longitude: float, moment: datetime) -> None:
    check(parse(event, latitude=latitude, longitude=longitude), moment)


def check(entry: Entry, moment: datetime) -> None:
    assert in_words(entry)
    for _ in range(3):
        found = entry.next_after(moment)
        assert found is not None and found > moment and found.tzinfo is UTC
        assert entry.next_after(found - timedelta.resolution) == found
        moment = found


def test_a_one_shot_comes_once() -> None:
    entry = parse("at 2026-12-24T18:00", "Europe/Berlin")
    assert entry.next_after(at("2026-12-24T16:59")) == at("2026-12-24T17:00")
    assert entry.next_after(at("2026-12-24T17:00")) is None


def test_a_one_shot_in_a_gap_comes_right_after_it() -> None:
    assert parse("at 2026-03-29T02:30", "Europe/Berlin").next_after(at("2026-01-01T00:00")) == at("2026-03-29T01:00")


def test_an_interval_has_a_phase() -> None:
    entry = parse("every 2 hours from 2026-01-01T09:30+01:00")
    assert following(entry, at("2026-11-18T00:00"), 2) == [at("2026-11-18T00:30"), at("2026-11-18T02:30")]


def test_moments_of_any_offset_are_understood() -> None:
    moment = datetime(2026, 11, 18, 3, tzinfo=timezone(timedelta(hours=5)))
    assert parse("@daily").next_after(moment) == at("2026-11-18T00:00")


@pytest.mark.parametrize("text", ["0 0 * * *", "every 90 minutes", "* * * * * *"])
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/Los_Angeles"])
def test_at_the_end_of_the_calendar_there_is_no_next(text: str, zone: str) -> None:
    assert parse(text, zone).next_after(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)) is None
