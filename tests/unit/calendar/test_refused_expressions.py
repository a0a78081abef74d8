"""Bad expressions: one sentence each that shows what was written and what to write instead."""

import pytest

from stem.calendar.parse import parse
from stem.core.errors import InvalidSchedule

REFUSED = [
    ("", "1 to 500 characters"),
    ("x" * 501, "1 to 500 characters"),
    ("* * * *", "has 4 fields"),
    ("* * * * * * *", "has 7 fields"),
    ("tomorrow", "has 1 field;"),
    ("60 * * * *", "it must be 0 to 59"),
    ("* 24 * * *", "it must be 0 to 23"),
    ("* * 0 * *", "it must be 1 to 31"),
    ("* * * 13 *", "it must be 1 to 12"),
    ("* * * * 8", "it must be 0 to 7"),
    ("-5 * * * *", "write it like"),
    ("1,,2 * * * *", "write it like"),
    ("1- * * * *", "write it like"),
    ("½ * * * *", "write it like"),
    ("٣ * * * *", "write it like"),
    ("1.5 * * * *", "write it like"),
    ("? * * * *", "write it like"),
    ("H * * * *", "write it like"),
    ("50-10 * * * *", "write 50-59,0-10"),
    ("* * 25-5 * *", "write 25-31,1-5"),
    ("*/0 * * * *", "the step is 1 to 60"),
    ("*/90 * * * *", "'every 90 minutes'"),
    ("*/x * * * *", "write it like"),
    ("*/ * * * *", "write it like"),
    ("0 0 15W * *", "write it like 1 or 1-15 or L"),
    ("0 0 L-3 * *", "write it like"),
    ("0 0 * * L", "5L"),
    ("0 0 * * mon#6", "1 to 5"),
    ("0 0 * * mon#", "1 to 5"),
    ("0 0 * * #1", "write it like"),
    ("0 0 * * monday", "mon-fri"),
    ("0 0 * foo *", "jan-mar"),
    ("@fortnightly", "is not a macro"),
    ("@", "is not a macro"),
    ("every", "no interval"),
    ("every monday", "no interval"),
    ("every 5 parsecs", "no interval"),
    ("every -5 minutes", "no interval"),
    ("every 1.5 hours", "no interval"),
    ("every 0s", "one second to 100 years"),
    ("every 999999999 weeks", "one second to 100 years"),
    ("every 5 minutes from noon", "no ISO 8601 moment"),
    ("at noon", "no ISO 8601 moment"),
    ("at 0001-01-01T00:00+12:00", "no ISO 8601 moment"),
    ("sunset", "needs a place"),
]


@pytest.mark.parametrize(("text", "sentence"), REFUSED, ids=[ascii(text[:20]) for text, _ in REFUSED])
def test_a_bad_expression_is_refused_with_one_sentence_and_a_remedy(text: str, sentence: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        parse(text)
    message = str(refusal.value)
    assert sentence in message
    assert message.endswith(".") and "\n" not in message and len(message) < 200


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../../etc/passwd", "/etc/passwd", "Europe", "x" * 300, "a\0b"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidSchedule, match="is not a time zone"):
        parse("@daily", zone)
