"""Say in plain English when an entry fires."""

from datetime import UTC, datetime, timedelta
from typing import assert_never

from stem.calendar.cron import Cron
from stem.calendar.cron_words import cron_in_words
from stem.calendar.entry import Entry
from stem.calendar.interval import EPOCH, Interval
from stem.calendar.listing import joined
from stem.calendar.once import Once
from stem.calendar.solar import Solar

_HOUR = timedelta(hours=1)
_UNITS = {"week": 7 * 86400, "day": 86400, "hour": 3600, "minute": 60, "second": 1}


def in_words(entry: Entry) -> str:
    """Return one phrase without a full stop, such as `At 02:00 every day`. Entries with equal words fire alike."""
    match entry:
        case Cron():
            return cron_in_words(entry.fields)
        case Interval(every, anchor):
            is_plain = anchor == EPOCH and not _HOUR % every
            counted = "" if is_plain else f", counted from {_written(anchor)}"
            return f"Every {_length(every)}{counted}"
        case Once(at):
            return f"Once, at {_written(at)}"
        case Solar(event, latitude, longitude):
            place = f"latitude {latitude}, longitude {longitude}"
            return f"At {event} at {place}" + ("" if event == "noon" else f", on days that have a {event}")
        case _:
            assert_never(entry)


def _length(every: timedelta) -> str:
    """Return `5 minutes`, `hour` or `1 hour and 30 minutes`."""
    rest = int(every.total_seconds())
    parts: list[tuple[int, str]] = []
    for unit, seconds in _UNITS.items():
        count, rest = divmod(rest, seconds)
        if count:
            parts.append((count, unit))
    if len(parts) == 1 and parts[0][0] == 1 and not every.microseconds:
        return parts[0][1]
    texts = [f"{count} {unit}{'' if count == 1 else 's'}" for count, unit in parts]
    return joined([*texts, *([f"{every.microseconds} microseconds"] if every.microseconds else [])])


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
