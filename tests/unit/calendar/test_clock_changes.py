"""The calendar against a plain search: look at every minute around a change, or at every wall-clock time."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from stem.calendar.parse import parse

MINUTE = timedelta(minutes=1)
# A day around each change of 2026.
CHANGES = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("Australia/Lord_Howe", "2026-04-04"),
    ("Australia/Lord_Howe", "2026-10-03"),
    ("Pacific/Chatham", "2026-04-04"),
    ("Pacific/Chatham", "2026-09-26"),
    ("Antarctica/Troll", "2026-03-29"),
    ("Antarctica/Troll", "2026-10-25"),
    ("America/Santiago", "2026-04-05"),
    ("America/Santiago", "2026-09-06"),
    ("Africa/Casablanca", "2026-02-15"),
]
ALL = range(60)
PATTERNS = [
    ("*/20 * * * *", range(0, 60, 20), range(24)),
    ("0 */2 * * *", [0], range(0, 24, 2)),
    ("*/15 1-3 * * *", range(0, 60, 15), [1, 2, 3]),
    ("10,40 * * * *", [10, 40], range(24)),
    ("30 0,1,2,3 * * *", [30], [0, 1, 2, 3]),
    ("0,45 23,0,1,2 * * *", [0, 45], [23, 0, 1, 2]),
    ("15 2 * * *", [15], [2]),
    ("59 0 * * *", [59], [0]),
]


@pytest.mark.parametrize(("time_zone", "day"), CHANGES)
@pytest.mark.parametrize(("expression", "minutes", "hours"), PATTERNS, ids=lambda value: str(value))
def test_every_instant_around_a_change_is_found(
    time_zone: str, day: str, expression: str, minutes: list[int], hours: list[int]
) -> None:
    tz = ZoneInfo(time_zone)
    start = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(hours=20)
    end = start + timedelta(hours=48)
    search = as_clocks_show if "*" in " ".join(expression.split()[:2]) else once_per_wall_time
    expected = [each for each in search(tz, start, end, minutes, hours) if start < each <= end]
    found, entry = [], parse(expression, time_zone)
    moment = entry.next_after(start)
    while moment is not None and moment <= end:
        found.append(moment)
        moment = entry.next_after(moment)
    assert found == expected


def as_clocks_show(
    tz: ZoneInfo, start: datetime, end: datetime, minutes: list[int], hours: list[int]
) -> list[datetime]:
    """Each minute at which clocks show a matching time."""
    every = [start + MINUTE * number for number in range(int((end - start) / MINUTE) + 1)]
    return [each for each in every if each.astimezone(tz).minute in minutes and each.astimezone(tz).hour in hours]


def once_per_wall_time(
    tz: ZoneInfo, start: datetime, end: datetime, minutes: list[int], hours: list[int]
) -> list[datetime]:
    """For each matching time the first minute at which clocks have reached or passed it."""
    every = [start - timedelta(hours=6) + MINUTE * number for number in range(int((end - start) / MINUTE) + 361)]
    found, latest = set(), every[0].astimezone(tz).replace(tzinfo=None)
    for instant in every[1:]:
        wall = instant.astimezone(tz).replace(tzinfo=None, fold=0)
        while latest < wall:
            latest += MINUTE
            if latest.minute in minutes and latest.hour in hours:
                found.add(instant)
    return sorted(found)
