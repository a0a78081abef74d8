"""Expressions in plain English: examples, and that equal words mean equal instants."""

import random

import pytest

from stem.calendar.cron import Cron, CronFields, read_cron
from stem.calendar.parse import parse
from stem.calendar.words import in_words
from stem.core.errors import InvalidSchedule
from unit.calendar.expressions import expression


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 2 * * *", "At 02:00 every day"),
        ("@daily", "At 00:00 every day"),
        ("*/5 9-17 * * mon-fri", "Every 5 minutes on weekdays between 09:00 and 17:59"),
        ("* * * * *", "Every minute"),
        ("*/15 * * * * *", "Every 15 seconds"),
        ("@hourly", "Every hour on the hour"),
        ("0 */2 * * sat,sun", "Every 2 hours on the hour on weekends"),
        ("30 * * * *", "At minute 30 of every hour"),
        ("*/7 1,5 * * *", "At every 7th minute from 0 to 56 during hours 1 and 5"),
        ("*/20 22-2 * * fri-mon", "Every 20 minutes from Friday to Monday between 22:00 and 02:59"),
        ("30 0 2 * * *", "At 02:00:30 every day"),
        ("0 0 13 * fri", "At 00:00 on day 13 of the month or on Fridays"),
        ("0 0 */2 * mon", "At 00:00 on every 2nd day from 1 to 31 of the month, and only on Mondays"),
        ("0 0 1-31 * mon", "At 00:00 every day"),
        ("0 9 LW * ?", "At 09:00 on the last working day (Monday to Friday) of the month"),
        ("0 9 1,15,L * ?", "At 09:00 on days 1 and 15 and the last day of the month"),
        ("0 9 ? * MON#1,5L", "At 09:00 on the first Monday and the last Friday of the month"),
        ("0 9,17 1 jan,jul *", "At 09:00 and 17:00 on day 1 of the month in January and July"),
        ("0 0 1 */3 *", "At 00:00 on day 1 of the month in every 3rd month from January to October"),
        ("every 5 minutes", "Every 5 minutes"),
        ("every hour", "Every hour"),
        ("every 90s", "Every 1 minute and 30 seconds"),
        ("every 7 days", "Every week, counted from 1970-01-01T00:00:00Z"),
        ("every 1 hour from 2026-01-01T00:20Z", "Every hour, counted from 2026-01-01T00:20:00Z"),
        ("at 2030-01-31T09:00Z", "Once, at 2030-01-31T09:00:00Z"),
    ],
)
def test_an_expression_in_words(text: str, words: str) -> None:
    assert in_words(parse(text)) == words


def test_a_solar_entry_names_its_place() -> None:
    words = in_words(parse("sunset", latitude=52.5, longitude=13.4))
    assert words == "At sunset at latitude 52.5, longitude 13.4, on days that have a sunset"


def meaning(fields: CronFields) -> object:
    """What decides when an expression fires; a part that cannot matter is left out."""
    days: object = (fields.needs_both_days, _days(fields))
    if fields.day.is_any or fields.weekday.is_any:
        days = _days(fields) if fields.needs_both_days else "every day"
    if fields.day.is_any and fields.weekday.is_any:
        days = "every day"
    return fields.second.numbers, fields.minute.numbers, fields.hour.numbers, fields.month.numbers, days


def _days(fields: CronFields) -> object:
    return [None if each.is_any else (each.numbers, each.specials) for each in (fields.day, fields.weekday)]


def test_equal_words_mean_equal_instants() -> None:
    dice = random.Random(7)
    said: dict[str, str] = {}
    for _ in range(4_000):
        text = expression(dice)
        try:
            entry = Cron(text)
        except InvalidSchedule:
            continue
        words = in_words(entry)
        assert words and "  " not in words and not words.endswith(".")
        earlier = said.setdefault(words, text)
        assert meaning(read_cron(earlier)) == meaning(entry.fields), (words, earlier, text)
    assert len(said) > 3_000
