"""Check schedule entries. Imported only where there are schedules, because calendars take time to load."""

import msgspec

from stem.calendar.entry import Entry
from stem.calendar.parse import parse
from stem.contracts.schedules import ScheduleEntry
from stem.core.envelope import check_id, check_name
from stem.core.errors import InvalidSchedule


def calendar_of(entry: ScheduleEntry) -> Entry:
    """Return the instants of the entry. Raises InvalidSchedule."""
    return parse(entry.spec, entry.time_zone, latitude=entry.latitude, longitude=entry.longitude)


def check_entry(entry: ScheduleEntry) -> ScheduleEntry:
    """Raises InvalidSchedule or InvalidTask."""
    try:
        msgspec.convert(msgspec.to_builtins(entry), ScheduleEntry)
    except msgspec.ValidationError as error:
        raise InvalidSchedule(f"Schedule {entry.id} is wrong: {error}; correct that field.") from error
    check_id(entry.id)
    check_name(entry.task)
    calendar_of(entry)
    if not 0 <= entry.jitter_seconds <= 86_400:
        raise InvalidSchedule(f"A jitter of {entry.jitter_seconds:g} s is out of bounds; choose 0 s to 1 day.")
    if entry.max_runs is not None and entry.max_runs < 1:
        raise InvalidSchedule("An entry runs at least once; choose 1 or more for max runs, or leave it out.")
    if entry.starts_at is not None and entry.ends_at is not None and entry.starts_at >= entry.ends_at:
        raise InvalidSchedule("The entry ends before it starts; choose a later end.")
    return entry
