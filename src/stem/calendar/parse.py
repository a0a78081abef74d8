"""Read a schedule expression: a cron line or macro, `every 5 minutes`, `at 2030-01-31T09:00`, or an event of the sun."""

import re
from datetime import UTC, datetime, timedelta

from stem.calendar.cron import MACROS, Cron
from stem.calendar.entry import Entry
from stem.calendar.interval import EPOCH, Interval
from stem.calendar.once import Once
from stem.calendar.solar import EVENTS, Solar
from stem.calendar.wall_clock import instant_or_after_gap, zone
from stem.core.errors import InvalidSchedule

_LONGEST_TEXT = 500
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_PART = re.compile(
    r"([0-9]{1,9})\s*(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)(?![a-z])[\s,]*|"
    r"([0-9]{1,9})\s*([smhdw])(?=[0-9])"
)
_BARE_UNIT = re.compile(r"second|minute|hour|day|week")


def parse(text: str, time_zone: str = "UTC", *, latitude: float | None = None, longitude: float | None = None) -> Entry:
    """Return the entry that the text describes. Times without an offset are of the time zone. Raises InvalidSchedule."""
    zone(time_zone)
    words = " ".join(text.split())
    if not words or len(words) > _LONGEST_TEXT:
        raise InvalidSchedule(f"A schedule has 1 to {_LONGEST_TEXT} characters; write one such as '0 2 * * *'.")
    head, _, rest = words.lower().partition(" ")
    if head in ("every", "@every"):
        return _interval(words, rest, time_zone)
    if head in ("at", "once"):
        return Once(_moment(words, rest, time_zone))
    if words.lower() in EVENTS:
        return _solar(words.lower(), latitude, longitude)
    if words.startswith("@"):
        return _macro(words, time_zone)
    return Cron(words, time_zone)


def _macro(words: str, time_zone: str) -> Cron:
    if words.lower() == "@reboot":
        raise InvalidSchedule(
            "'@reboot' names no time, and schedules have no `on_start`; where you start your workers, run: stem enqueue NAME"
        )
    if words.lower() not in MACROS:
        raise InvalidSchedule(f"{_shown(words)} is not a macro; there are {', '.join(MACROS)}.")
    return Cron(words, time_zone)


def _solar(event: str, latitude: float | None, longitude: float | None) -> Solar:
    if latitude is None or longitude is None:
        raise InvalidSchedule(f"{event!r} needs a place; give its latitude and longitude in degrees.")
    return Solar(event, latitude, longitude)  # type: ignore[arg-type]  # one of EVENTS


def _interval(words: str, rest: str, time_zone: str) -> Interval:
    length, _, anchor = rest.partition(" from ")
    seconds = 0
    if _BARE_UNIT.fullmatch(length):
        seconds = _UNITS[length[0]]
    elif not re.fullmatch(f"(?:{_PART.pattern})+", length):
        raise InvalidSchedule(
            f"{_shown(words)} is no interval; write 'every 5 minutes' or 'every 90s', or a cron line for days and times."
        )
    for number, unit, joined_number, joined_unit in _PART.findall(length):
        seconds += int(number or joined_number) * _UNITS[(unit or joined_unit)[0]]
    try:
        every = timedelta(seconds=seconds)
    except OverflowError:
        every = timedelta.max
    return Interval(every, _moment(words, anchor, time_zone) if anchor else EPOCH)


def _moment(words: str, text: str, time_zone: str) -> datetime:
    """Read an ISO moment. One that clocks skip is the end of the gap; one that they show twice is the first."""
    try:
        moment = datetime.fromisoformat(text.upper())
        return (instant_or_after_gap(moment, zone(time_zone)) if moment.tzinfo is None else moment).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidSchedule(f"{_shown(words)} has no ISO 8601 moment; write it like 2030-01-31T09:00:00Z.") from error


def _shown(words: str) -> str:
    return repr(words if len(words) <= 60 else f"{words[:60]}…")
