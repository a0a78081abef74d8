"""Say a cron expression in plain English, from what its fields mean rather than how they are written."""

from stem.calendar.cron import CronFields
from stem.calendar.cron_field import CronField
from stem.calendar.listing import counted, joined, listed, series, step_of

_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_FIRST_HALF = ("January", "February", "March", "April", "May", "June")
_MONTHS = (*_FIRST_HALF, "July", "August", "September", "October", "November", "December")
_NTH = {"1": "first", "2": "second", "3": "third", "4": "fourth", "5": "fifth", "L": "last"}
_MOST_TIMES = 6  # that are listed one by one
_OF_THE_MONTH = {"L": "the last day", "LW": "the last working day (Monday to Friday)"}


def cron_in_words(fields: CronFields) -> str:
    """Return `At 02:00 every day` or `Every 5 minutes on weekdays between 09:00 and 17:59`."""
    times = _times(fields)
    days, months = _days(fields), _months(fields.month)
    if times:
        return " ".join(filter(None, (f"At {times}", days or "every day", months)))
    pace = _pace(fields)
    hours = _hours(fields.hour, is_said=pace.endswith(" hours on the hour"))
    return " ".join(filter(None, (pace, days, months, hours)))


def _times(fields: CronFields) -> str:
    """List the times of day, if they are few; otherwise nothing."""
    hours, minutes, seconds = fields.hour.numbers, fields.minute.numbers, fields.second.numbers
    if len(hours) * len(minutes) * len(seconds) > _MOST_TIMES or fields.hour.is_any:
        return ""
    is_whole = seconds == (0,)
    return joined(
        [
            f"{hour:02}:{minute:02}" + ("" if is_whole else f":{second:02}")
            for hour in hours
            for minute in minutes
            for second in seconds
        ]
    )


def _pace(fields: CronFields) -> str:
    """Say what happens within the hours."""
    second, minute, hour = fields.second, fields.minute, fields.hour
    if second.numbers == (0,):
        return _hourly(minute, hour) or _every(minute, "minute") or f"At {counted('minute', minute.numbers)}{_of(hour)}"
    seconds = _every(second, "second") or f"At {counted('second', second.numbers)}"
    if minute.is_any:
        return seconds if _every(second, "second") else f"{seconds} of every minute"
    return f"{seconds} of {counted('minute', minute.numbers)}{_of(hour)}"


def _hourly(minute: CronField, hour: CronField) -> str:
    """Return `Every 2 hours on the hour`; nothing if it is not on the hour, or in scattered hours."""
    if minute.numbers != (0,) or _is_scattered(hour):
        return ""
    step = _even_step(hour, 24)
    return f"Every {step} hours on the hour" if step else "Every hour on the hour"


def _of(hour: CronField) -> str:
    return " of every hour" if hour.is_any else ""


def _every(field: CronField, unit: str) -> str:
    if field.is_any:
        return f"Every {unit}"
    step = _even_step(field, 60)
    return f"Every {step} {unit}s" if step else ""


def _even_step(field: CronField, size: int) -> int:
    """Return the step of a series from 0 that divides the whole evenly; otherwise 0."""
    step = step_of(field.numbers)
    return step if step > 1 and field.numbers == tuple(range(0, size, step)) and size % step == 0 else 0


def _hours(hour: CronField, *, is_said: bool) -> str:
    """Say between which times; nothing if that is all day or has been said."""
    if hour.is_any or is_said:
        return ""
    first, last = _ends(hour.numbers, 24)
    return f"during {counted('hour', hour.numbers)}" if first is None else f"between {first:02}:00 and {last:02}:59"


def _is_scattered(hour: CronField) -> bool:
    return not hour.is_any and not _even_step(hour, 24) and _ends(hour.numbers, 24)[0] is None


def _ends(numbers: tuple[int, ...], size: int) -> tuple[int | None, int]:
    """Return where one unbroken run around the circle begins and ends; None if there are several."""
    starts = [number for number in numbers if (number - 1) % size not in numbers]
    if len(starts) != 1:
        return None, 0
    return starts[0], (starts[0] + len(numbers) - 1) % size


def _days(fields: CronFields) -> str:
    """Say on which days; nothing if that is every day."""
    day, weekday = fields.day, fields.weekday
    if day.is_any and weekday.is_any:
        return ""
    if fields.needs_both_days:
        both = ["" if day.is_any else _month_days(day), "" if weekday.is_any else _weekdays(weekday)]
        return ", and only ".join(filter(None, both))
    return "" if day.is_any or weekday.is_any else f"{_month_days(day)} or {_weekdays(weekday)}"


def _month_days(day: CronField) -> str:
    """Return `on day 1 of the month`, `on days 1 and 15 and the last day of the month`."""
    specials = [_OF_THE_MONTH[special] for special in day.specials]
    plain = [counted("day", day.numbers)] if day.numbers else []
    return f"on {joined([*plain, *specials])} of the month"


def _weekdays(weekday: CronField) -> str:
    """Return `on weekdays`, `on Mondays and Fridays`, `from Friday to Monday`, `on the first Monday of the month`."""
    texts = [_plain_weekdays(weekday.numbers)] if weekday.numbers else []
    nth = [f"the {_NTH[special[-1]]} {_DAYS[int(special[0])]}" for special in weekday.specials]
    return " or ".join([*texts, *([f"on {joined(nth)} of the month"] if nth else [])])


def _plain_weekdays(numbers: tuple[int, ...]) -> str:
    if numbers == (1, 2, 3, 4, 5):
        return "on weekdays"
    if numbers == (0, 6):
        return "on weekends"
    first, last = _ends(numbers, 7)
    if first is not None and len(numbers) > 2:
        return f"from {_DAYS[first]} to {_DAYS[last]}"
    return f"on {joined([f'{_DAYS[number]}s' for number in numbers])}"


def _months(month: CronField) -> str:
    """Return `in January and June`; nothing if that is every month."""
    if month.is_any:
        return ""
    return f"in {series('month', month.numbers, _month_name) or listed(month.numbers, _month_name)}"


def _month_name(number: int) -> str:
    return _MONTHS[number - 1]
