"""2,000 random expressions against croniter, over four zones, both changes of clocks and leap days.

croniter reads wall-clock times; what it does around a change of clocks is its own. So the times that clocks skip or repeat
are left out on both sides here; test_clock_changes.py is about those.
"""

from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest
from croniter import CroniterBadDateError, croniter

from stem.calendar.cron import Cron
from stem.core.errors import InvalidSchedule
from unit.calendar.expressions import expression

EXPRESSIONS = 2_000
INSTANTS = 6
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
STARTS = (
    "2026-03-27T20:00",
    "2026-10-24T20:00",
    "2026-03-07T12:00",
    "2026-10-31T12:00",
    "2026-04-04T09:00",
    "2026-10-03T09:00",
    "2028-02-28T12:34",
    "2099-12-30T23:59",
)


def reference(text: str, wall: datetime) -> list[datetime]:
    """The next wall-clock times that croniter finds; none if it finds no date."""
    has_seconds = len(text.split()) == 6
    times = croniter(text, wall, ret_type=datetime, implement_cron_bug=True, second_at_beginning=has_seconds)
    try:
        return [times.get_next() for _ in range(INSTANTS)]
    except CroniterBadDateError:
        return []


def is_plain(wall: datetime, tz: ZoneInfo) -> bool:
    """Clocks show this time once, and none was skipped right before it."""
    before = wall - timedelta(seconds=1)
    offsets = {each.replace(tzinfo=tz, fold=fold).utcoffset() for each in (wall, before) for fold in (0, 1)}
    return len(offsets) == 1


def plain_times(entry: Cron, start: datetime, until: datetime, tz: ZoneInfo) -> list[datetime]:
    found, instant = [], entry.next_after(start)
    while instant is not None:
        wall = instant.astimezone(tz).replace(tzinfo=None)
        if wall > until:
            break
        found.append(wall)
        instant = entry.next_after(instant)
    return [wall for wall in found if is_plain(wall, tz)]


@pytest.mark.parametrize("seed", range(8))
def test_random_expressions_mean_what_croniter_says(seed: int) -> None:
    dice = Random(seed)
    compared = 0
    for _ in range(EXPRESSIONS // 8):
        text, zone_name, wall = expression(dice), dice.choice(ZONES), datetime.fromisoformat(dice.choice(STARTS))
        expected = reference(text, wall)
        try:
            entry = Cron(text, zone_name)
        except InvalidSchedule:
            assert expected == [], text
            continue
        if not expected:
            continue  # croniter looks less far ahead
        tz = ZoneInfo(zone_name)
        start = wall.replace(tzinfo=tz).astimezone(UTC)
        found = plain_times(entry, start, expected[-1], tz)
        assert found == [each for each in expected if is_plain(each, tz)], f"{text} in {zone_name} after {wall}"
        compared += 1
    assert compared > 200
