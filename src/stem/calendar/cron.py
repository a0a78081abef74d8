"""Cron entries. cronsim finds the matching wall-clock times; what becomes of them when clocks change is decided here."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from stem.calendar.cron_field import KINDS, CronField, read_field
from stem.calendar.wall_clock import (
    gap_end,
    instant_or_after_gap,
    instants,
    reading,
    repeat_start,
    zone,
)
from stem.core.errors import InvalidSchedule

_LONGEST_TEXT = 500
_SECOND = timedelta(seconds=1)
_PATIENCE_YEARS = 50  # as cronsim: 29 February falls on each weekday within 40 years
_SOME_START = datetime(2024, 1, 1, tzinfo=UTC)  # from where it is looked for dates that never come
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class CronFields(msgspec.Struct, frozen=True):
    """The six fields of an expression; without seconds the first is `0`."""

    second: CronField
    minute: CronField
    hour: CronField
    day: CronField
    month: CronField
    weekday: CronField

    @property
    def text(self) -> str:
        """The expression in the words of cronsim."""
        return " ".join(each.text for each in (self.second, self.minute, self.hour, self.day, self.month, self.weekday))

    @property
    def needs_both_days(self) -> bool:
        """Both days must match if one of them begins with `*`, or the weekday with `&`; otherwise either will do."""
        return self.day.begins_with_star or self.weekday.begins_with_star or self.weekday.is_strict

    @property
    def follows_the_clock(self) -> bool:
        """An entry with a wildcard in its time fires whenever clocks show a matching time; others once per matching time."""
        return any(each.begins_with_star or each.is_any for each in (self.second, self.minute, self.hour))


class Cron(msgspec.Struct, frozen=True):
    """An entry that fires when clocks in `time_zone` show a time that the expression matches.

    In spring a fixed time that clocks skip fires once, right after the gap. In autumn a fixed time fires once, at the first
    of the two. An entry with a wildcard in second, minute or hour follows the clock: it fires in both hours and not in a gap.
    Raises InvalidSchedule when it is made.
    """

    expression: str
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        _check(self.expression, self.time_zone)

    @property
    def fields(self) -> CronFields:
        return read_cron(self.expression)

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first instant after the moment, in UTC; None past the end of the calendar."""
        return _next_after(read_cron(self.expression), zone(self.time_zone), moment)


@lru_cache(maxsize=4096)
def read_cron(expression: str) -> CronFields:
    """Read five fields, six with seconds first, or a macro. Raises InvalidSchedule."""
    if len(expression) > _LONGEST_TEXT:
        raise InvalidSchedule(
            f"A cron expression has at most {_LONGEST_TEXT} characters; split it into several entries."
        )
    texts = MACROS.get(expression.strip().lower(), expression).split()
    if len(texts) not in (5, 6):
        count = "1 field" if len(texts) == 1 else f"{len(texts)} fields"
        raise InvalidSchedule(
            f"{expression!r} has {count}; write minute, hour, day, month and weekday, or six fields with seconds first."
        )
    return CronFields(*map(read_field, KINDS, texts if len(texts) == 6 else ["0", *texts]))


@lru_cache(maxsize=4096)
def _check(expression: str, time_zone: str) -> None:
    """Raises InvalidSchedule if the expression, the zone or a date does not exist."""
    fields, tz = read_cron(expression), zone(time_zone)
    if _next_after(fields, tz, _SOME_START) is None:
        raise InvalidSchedule(f"{expression!r} never comes: no date matches it; change its day, month or weekday.")


def _next_after(fields: CronFields, tz: ZoneInfo, moment: datetime) -> datetime | None:
    start = moment.astimezone(UTC)
    try:
        return _next_shown(fields, tz, start) if fields.follows_the_clock else _next_fixed(fields, tz, start)
    except (OverflowError, StopIteration, CronSimError):  # the end of the calendar, or a date that never comes
        return None


def _next_fixed(fields: CronFields, tz: ZoneInfo, start: datetime) -> datetime:
    matches = _matches(fields, reading(start, tz))
    return next(instant for wall in matches if (instant := instant_or_after_gap(wall, tz)) > start)


def _next_shown(fields: CronFields, tz: ZoneInfo, start: datetime) -> datetime | None:
    """Return the first instant after `start` at which clocks show a matching time."""
    found = _first_shown(fields, tz, reading(start, tz), start)
    repeat = repeat_start(start, tz)
    if found is None or repeat is None or found < repeat:
        return found
    # Clocks will be set back to before the time they show now, and show matches again that lie behind us.
    again = _first_shown(fields, tz, reading(repeat, tz) - _SECOND, repeat - _SECOND)
    return found if again is None else min(found, again)


def _first_shown(fields: CronFields, tz: ZoneInfo, wall: datetime, after: datetime) -> datetime | None:
    last_year = wall.year + _PATIENCE_YEARS  # what matches only skipped times never comes
    while wall.year <= last_year:
        wall = next(_matches(fields, wall))
        shown = instants(wall, tz)
        if shown and shown[-1] > after:
            return next(instant for instant in shown if instant > after)
        if not shown:
            wall = reading(gap_end(wall, tz), tz) - _SECOND
    return None


def _matches(fields: CronFields, wall: datetime) -> CronSim:
    """The matching times of the clock after this one."""
    found = CronSim(fields.text, wall)
    found.day_and = fields.needs_both_days
    return found
