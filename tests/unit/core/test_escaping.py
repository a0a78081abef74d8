"""Hostile text cannot act on a terminal, nor look like what it is not, in any form in which it is shown."""

import json
import logging

import pytest

from stem.core.text.escaping import plain, plain_json, plain_lines
from stem.runtime.log import JsonFormatter, TextFormatter

HOSTILE = {
    "escape sequence": "\x1b[2J",
    "C1 control sequence": "\x9b2J",
    "C1 operating system command": "\x9d0;title\x9c",
    "next line": "\x85",
    "right-to-left override": "\u202e",
    "isolate": "\u2066",
    "zero width": "\u200b",
    "line separator": "\u2028",
    "delete": "\x7f",
    "half a character": "\ud800",
    "tag, beyond the basic plane": "\U000e0041",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_it_is_spelled_out_in_text_and_in_json(text: str) -> None:
    assert plain(f"a{text}b").isprintable()
    shown = plain_json(json.dumps({"x": text}, ensure_ascii=False))
    assert shown.isprintable() and json.loads(shown) == {"x": text}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_it_is_spelled_out_in_lines_of_the_log_and_their_tracebacks(text: str, formatter: logging.Formatter) -> None:
    try:
        raise ValueError(f"a{text}b")
    except ValueError as error:
        exc_info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("stem.task", logging.INFO, "", 0, "said %s", (text,), exc_info)
    shown = formatter.format(record)
    assert all(line.isprintable() for line in shown.split("\n"))


def test_harmless_text_stays_as_it_is() -> None:
    assert plain("Grüße, 世界 ✓") == "Grüße, 世界 ✓"
    assert plain_json('{\n  "x": "Grüße"\n}') == '{\n  "x": "Grüße"\n}'
    assert plain_lines("a\n\tb\n") == "a\n\tb\n"
