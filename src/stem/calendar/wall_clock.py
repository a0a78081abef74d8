"""Map wall-clock times to instants: a time may be skipped or come twice when clocks change."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

from stem.core.errors import InvalidSchedule

_SECOND = timedelta(seconds=1)


def zone(name: str) -> ZoneInfo:
    """Return the time zone of that name. Raises InvalidSchedule."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # absent, not a plain path, a folder
        remedy = "write a name such as Europe/Berlin or UTC"
        if not available_timezones():
            remedy = "this machine has no time zone database; install the package tzdata"
        raise InvalidSchedule(f"{name[:80]!r} is not a time zone; {remedy}.") from error


def reading(instant: datetime, tz: ZoneInfo) -> datetime:
    """Return what a clock on the wall shows at the instant, without a zone."""
    return instant.astimezone(tz).replace(tzinfo=None, fold=0)


def instants(wall: datetime, tz: ZoneInfo) -> list[datetime]:
    """Return when clocks show this time: one instant, none if they skip it, two if they show it twice."""
    both = {wall.replace(tzinfo=tz, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(instant for instant in both if reading(instant, tz) == wall)


def instant_or_after_gap(wall: datetime, tz: ZoneInfo) -> datetime:
    """Return the first instant at which clocks show this time, or the end of the gap that skips it."""
    return next(iter(instants(wall, tz)), None) or gap_end(wall, tz)


def gap_end(wall: datetime, tz: ZoneInfo) -> datetime:
    """Return the instant at which clocks jumped over this time."""
    # Read with the offset after the change, a skipped time lies before the change; with the one before it, after.
    earlier, later = (wall.replace(tzinfo=tz, fold=fold).astimezone(UTC) for fold in (1, 0))
    return _change_between(earlier, later, tz)


def repeat_start(instant: datetime, tz: ZoneInfo) -> datetime | None:
    """Return when clocks will be set back to repeat the time they show at this instant; None if they will not."""
    local = instant.astimezone(tz)
    first, second = (local.replace(fold=fold).utcoffset() or timedelta(0) for fold in (0, 1))
    if local.fold == 1 or first <= second:
        return None
    return _change_between(instant, instant + (first - second), tz)


def _change_between(earlier: datetime, later: datetime, tz: ZoneInfo) -> datetime:
    """Return the first instant of the offset that holds at `later` and did not at `earlier`, to the second."""
    offset = later.astimezone(tz).utcoffset()
    earlier, later = earlier.replace(microsecond=0), (later + _SECOND - timedelta.resolution).replace(microsecond=0)
    while later - earlier > _SECOND:
        middle = earlier + timedelta(seconds=(later - earlier) // _SECOND // 2)
        if middle.astimezone(tz).utcoffset() == offset:
            later = middle
        else:
            earlier = middle
    return later
