"""Cases 1 to 14 of the field: what a schedule does when clocks change, and what expressions mean."""

from datetime import UTC, datetime, timedelta
from time import perf_counter

import pytest

from stem.calendar.parse import parse
from stem.core.errors import InvalidSchedule
from unit.calendar.instants import at, following, shown, times


def test_case_01_a_fixed_time_in_the_spring_gap_fires_once_right_after_it() -> None:
    assert shown("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", 2) == [
        "2026-03-29 03:00:00+02:00",
        "2026-03-30 02:30:00+02:00",
    ]
    assert shown("0,15,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", 2) == [
        "2026-03-29 03:00:00+02:00",
        "2026-03-30 02:00:00+02:00",
    ]


def test_case_01_a_wildcard_entry_fires_at_no_time_that_clocks_skip() -> None:
    assert shown("*/30 * * * *", "Europe/Berlin", "2026-03-29T01:15", 2) == [
        "2026-03-29 01:30:00+01:00",
        "2026-03-29 03:00:00+02:00",
    ]


def test_case_02_a_fixed_time_in_the_autumn_fold_fires_once_at_the_first() -> None:
    assert shown("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 2) == [
        "2026-10-25 02:30:00+02:00",
        "2026-10-26 02:30:00+01:00",
    ]
    in_the_second_hour = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)
    assert parse("30 2 * * *", "Europe/Berlin").next_after(in_the_second_hour) == at(
        "2026-10-26T02:30", "Europe/Berlin"
    )


@pytest.mark.parametrize("expression", ["0 * * * *", "@hourly", "0 0-23 * * *", "0 0 * * * *"])
def test_case_02_an_hourly_entry_fires_in_both_hours_of_the_fold(expression: str) -> None:
    assert shown(expression, "Europe/Berlin", "2026-10-25T01:00", 3) == [
        "2026-10-25 02:00:00+02:00",
        "2026-10-25 02:00:00+01:00",
        "2026-10-25 03:00:00+01:00",
    ]


def test_case_02_a_wildcard_minute_fires_in_both_hours_of_the_fold() -> None:
    assert shown("*/30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 5) == [
        "2026-10-25 02:00:00+02:00",
        "2026-10-25 02:30:00+02:00",
        "2026-10-25 02:00:00+01:00",
        "2026-10-25 02:30:00+01:00",
        "2026-10-26 02:00:00+01:00",
    ]


@pytest.mark.parametrize("day", ["2026-03-27", "2026-10-23"])
def test_case_03_nine_o_clock_stays_nine_o_clock_over_both_changes(day: str) -> None:
    assert {each[11:19] for each in shown("0 9 * * *", "America/New_York", f"{day}T12:00", 12)} == {"09:00:00"}


# Each change as the tz database has it: 30 minutes, 45 past the hour, two hours, and at midnight.
GAPS = [
    ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00", "2026-10-04 02:30:00+11:00"),
    ("Pacific/Chatham", "0 3 * * *", "2026-09-26T12:00", "2026-09-27 03:45:00+13:45"),
    ("Antarctica/Troll", "30 1 * * *", "2026-03-28T12:00", "2026-03-29 03:00:00+02:00"),
    ("America/Santiago", "0 0 * * *", "2026-09-05T12:00", "2026-09-06 01:00:00-03:00"),
]
FOLDS = [
    ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T12:00", "2026-04-05 01:45:00+11:00"),
    ("Pacific/Chatham", "0 3 * * *", "2026-04-04T12:00", "2026-04-05 03:00:00+13:45"),
    ("Antarctica/Troll", "30 1 * * *", "2026-10-24T12:00", "2026-10-25 01:30:00+02:00"),
    ("America/Santiago", "30 23 * * *", "2026-04-04T12:00", "2026-04-04 23:30:00-03:00"),
]


@pytest.mark.parametrize(("time_zone", "expression", "after", "expected"), [*GAPS, *FOLDS])
def test_case_04_changes_of_any_length_and_at_midnight(
    time_zone: str, expression: str, after: str, expected: str
) -> None:
    first, second = shown(expression, time_zone, after, 2)
    assert first == expected
    minute, hour = expression.split()[:2]
    assert second[11:16] == f"{int(hour):02}:{int(minute):02}"
    assert second[:10] > first[:10]


def test_case_04_every_second_hour_is_not_lost_after_a_change_of_30_minutes() -> None:
    assert shown("0 */2 * * *", "Australia/Lord_Howe", "2026-04-05T00:30", 2) == [
        "2026-04-05 02:00:00+10:30",
        "2026-04-05 04:00:00+10:30",
    ]


@pytest.mark.parametrize("time_zone", ["Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll", "America/Santiago"])
@pytest.mark.parametrize("expression", ["*/7 * * * *", "30 1,2,3 * * *", "*/20 */30 * * * *", "45 0,23 * * *"])
@pytest.mark.parametrize("start", ["2026-03-28", "2026-04-04", "2026-09-05", "2026-10-03", "2026-10-24"])
def test_case_05_next_always_moves_forward(time_zone: str, expression: str, start: str) -> None:
    entry, moment = parse(expression, time_zone), at(f"{start}T10:00", time_zone)
    for _ in range(300):
        moment += timedelta(minutes=8, microseconds=1)
        found = entry.next_after(moment)
        assert found is not None and found > moment


@pytest.mark.parametrize("start", ["2026-03-28T12:00", "2026-10-24T12:00"])
@pytest.mark.parametrize("expression", ["30 2 * * *", "0,30 2,3 * * *", "*/15 2 * * *"])
def test_case_06_six_fields_with_second_0_behave_as_five(expression: str, start: str) -> None:
    five = shown(expression, "Europe/Berlin", start, 8)
    assert shown(f"0 {expression}", "Europe/Berlin", start, 8) == five


def test_case_07_the_31st_skips_short_months() -> None:
    assert times("0 0 31 * *", "2026-01-31T00:00", 3) == ["2026-03-31 00:00", "2026-05-31 00:00", "2026-07-31 00:00"]


def test_case_08_29_february_from_2096_is_2104() -> None:
    assert times("0 0 29 2 *", "2096-02-29T00:00", 1) == ["2104-02-29 00:00"]


def test_case_09_day_of_month_and_weekday_either_if_neither_begins_with_a_star() -> None:
    assert times("0 0 13 * fri", "2026-11-01T00:00", 3) == ["2026-11-06 00:00", "2026-11-13 00:00", "2026-11-20 00:00"]
    assert times("0 0 16 * fri", "2026-11-13T00:00", 2) == ["2026-11-16 00:00", "2026-11-20 00:00"]


def test_case_09_otherwise_both() -> None:
    assert times("0 0 */2 * fri", "2026-11-01T00:00", 2) == ["2026-11-13 00:00", "2026-11-27 00:00"]
    assert times("0 0 13 * */5", "2026-11-01T00:00", 2) == ["2026-11-13 00:00", "2026-12-13 00:00"]
    assert times("0 0 13 * ?", "2026-11-01T00:00", 2) == ["2026-11-13 00:00", "2026-12-13 00:00"]


@pytest.mark.parametrize(
    "expression", ["0 0 31 2 *", "0 0 30,31 feb *", "0 0 31 4,6,9,11 *", "0 0 31 2 ?", "0 0 0 31 2 *"]
)
def test_case_10_a_date_that_never_comes_is_refused_at_load(expression: str) -> None:
    with pytest.raises(InvalidSchedule, match="never comes"):
        parse(expression)


def test_case_10_a_time_that_is_always_skipped_never_comes() -> None:
    with pytest.raises(InvalidSchedule, match="never comes"):
        parse("* 2 * 3 sun#2", "America/New_York")


def test_case_11_7_is_0_is_sunday() -> None:
    sundays = times("0 0 * * 0", "2026-11-01T00:00", 3)
    assert sundays == ["2026-11-08 00:00", "2026-11-15 00:00", "2026-11-22 00:00"]
    assert all(times(f"0 0 * * {day}", "2026-11-01T00:00", 3) == sundays for day in ("7", "sun", "SUN", "Sun", "7-7"))


def test_case_11_ranges_wrap_and_names_come_in_any_case() -> None:
    days = ["2026-11-20 00:00", "2026-11-21 00:00", "2026-11-22 00:00", "2026-11-23 00:00", "2026-11-27 00:00"]
    for weekday in ("fri-mon", "FRI-Mon", "5-1", "5-7,1", "fri,sat,7,MON"):
        assert times(f"0 0 * * {weekday}", "2026-11-17T00:00", 5) == days
    assert times("0 0 1 nov-FEB *", "2026-11-17T00:00", 4)[-1] == "2027-11-01 00:00"
    assert times("0 22-2/2 * * *", "2026-11-17T12:00", 3) == [
        "2026-11-17 22:00",
        "2026-11-18 00:00",
        "2026-11-18 02:00",
    ]


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("L * *", ["2026-01-31", "2026-02-28", "2026-03-31"]),
        ("LW * *", ["2026-01-30", "2026-02-27", "2026-03-31"]),
        ("l * ?", ["2026-01-31", "2026-02-28", "2026-03-31"]),
        ("* * 5L", ["2026-01-30", "2026-02-27", "2026-03-27"]),
        ("? * friL", ["2026-01-30", "2026-02-27", "2026-03-27"]),
        ("* * MON#1", ["2026-01-05", "2026-02-02", "2026-03-02"]),
        ("* * 1#5", ["2026-03-30", "2026-06-29", "2026-08-31"]),
        ("* * 7L", ["2026-01-25", "2026-02-22", "2026-03-29"]),
    ],
)
def test_case_12_last_and_nth_days(days: str, expected: list[str]) -> None:
    assert [each[:10] for each in times(f"0 0 {days}", "2026-01-01T00:00", 3)] == expected


@pytest.mark.parametrize("field", ["1--100000000", "1-100000000", "0-9999999999999999999", "*/100000000", "9" * 400])
def test_case_13_a_hostile_range_is_refused_before_it_is_expanded(field: str) -> None:
    started = perf_counter()
    with pytest.raises(InvalidSchedule):
        parse(f"{field} * * * *")
    assert perf_counter() - started < 0.5


@pytest.mark.parametrize("macro", ["@reboot", "@REBOOT"])
def test_case_14_reboot_is_refused_with_a_sentence_that_names_on_start(macro: str) -> None:
    with pytest.raises(InvalidSchedule, match=r"have no `on_start`; .* stem enqueue NAME"):
        parse(macro)


def test_a_schedule_of_every_second_is_followed_one_by_one() -> None:
    found = following(parse("* * * * * *", "Europe/Berlin"), at("2026-10-25T02:59:58", "Europe/Berlin"), 4)
    assert [f"{each:%H:%M:%S}" for each in found] == ["00:59:59", "01:00:00", "01:00:01", "01:00:02"]
