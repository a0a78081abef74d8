"""Shorthands of the calendar's tests."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from stem.calendar.entry import Entry
from stem.calendar.parse import parse


def at(text: str, time_zone: str = "UTC") -> datetime:
    """The instant at which clocks there first show that time."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(time_zone)).astimezone(UTC)


def following(entry: Entry, moment: datetime, count: int) -> list[datetime]:
    found: list[datetime] = []
    for _ in range(count):
        moment = entry.next_after(moment) or moment
        found.append(moment)
    return found


def shown(expression: str, time_zone: str, after: str, count: int) -> list[str]:
    """The next instants as local times with their offset; `after` is a local time."""
    entry = parse(expression, time_zone)
    local = [each.astimezone(ZoneInfo(time_zone)) for each in following(entry, at(after, time_zone), count)]
    return [each.isoformat(sep=" ") for each in local]


def times(expression: str, after: str, count: int) -> list[str]:
    """The next instants in UTC, to the minute."""
    return [f"{each:%Y-%m-%d %H:%M}" for each in following(parse(expression), at(after), count)]
