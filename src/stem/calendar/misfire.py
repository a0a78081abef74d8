"""Decide which instants to make up for that passed while no scheduler ran."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal, assert_never

from stem.calendar.entry import Entry

MisfirePolicy = Literal["skip", "once", "all"]
MOST_AT_ONCE = 1_000
_SECOND = timedelta(seconds=1)


def missed(
    entry: Entry,
    since: datetime,
    until: datetime,
    policy: MisfirePolicy,
    window: timedelta | None = None,
    *,
    at_most: int = MOST_AT_ONCE,
) -> list[datetime]:
    """Return the instants after `since` and up to `until` to fire now, oldest first.

    `skip` returns none, `once` the last one, `all` each. What is older than the window before `until` is never made up for.
    No call returns more than `at_most`; with `all`, ask again from the last one returned.
    """
    start = since if window is None else max(since, until - window)
    match policy:
        case "skip":
            return []
        case "once":
            last = _last(entry, start, until)
            return [] if last is None else [last]
        case "all":
            return list(islice(_between(entry, start, until), at_most))
        case _:
            assert_never(policy)


def _between(entry: Entry, start: datetime, until: datetime) -> Iterator[datetime]:
    instant = entry.next_after(start)
    while instant is not None and instant <= until:
        yield instant
        instant = entry.next_after(instant)


def _last(entry: Entry, start: datetime, until: datetime) -> datetime | None:
    """Find the last instant by halving the period, so that a year of seconds costs some thirty steps."""
    found = entry.next_after(start)
    if found is None or found > until:
        return None
    later = until
    while later - found > _SECOND:
        middle = found + (later - found) / 2
        candidate = entry.next_after(middle)
        if candidate is None or candidate > until:
            later = middle
        else:
            found = candidate
    return next(reversed([found, *_between(entry, found, until)]))
