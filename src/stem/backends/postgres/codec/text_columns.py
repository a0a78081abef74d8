"""Encode batches as columns of text: cells joined by the character 1, which JSON never holds raw. An empty cell is null.

One text parameter per column is the cheapest way to carry a batch: no per-cell work in the driver, one split on the server.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from stem.backends.postgres.connection.errors import unstorable
from stem.core.errors import InvalidTask

SEPARATOR = "\x01"
_encode = msgspec.json.Encoder().encode


def cell(text: str) -> str | None:
    """One by itself. Raises InvalidTask if it holds the separator."""
    if SEPARATOR in text:
        raise _holds_separator()
    return text or None


def column(cells: Sequence[str | None]) -> str:
    """Raises InvalidTask for a cell that holds the separator."""
    joined = SEPARATOR.join([cell or "" for cell in cells])
    if joined.count(SEPARATOR) != len(cells) - 1:
        raise _holds_separator()
    return joined if len(joined) >= len(cells) else ""  # nothing but separators: all null


def split(column: str | None) -> list[str]:
    """The cells of a column that the server has joined."""
    return column.split(SEPARATOR) if column else []


def numbers(values: Iterable[float | None]) -> str:
    """A column of numbers; empty when all are null."""
    cells = ["" if value is None else str(value) for value in values]
    return SEPARATOR.join(cells) if any(cells) else ""


def array(cells: Iterable[str]) -> str:
    """An array as the server writes one."""
    quoted = (cell.replace("\\", "\\\\").replace('"', '\\"') for cell in cells)
    return "{" + ",".join(f'"{cell}"' for cell in quoted) + "}"


def texts(cells: Sequence[str | None]) -> str:
    """A column of free text, each cell a JSON string, so that it may hold any character but NUL, which is dropped."""
    return column([None if cell is None else json_text(cell.replace("\x00", "")) for cell in cells])


def json_text(value: Any) -> str:
    """Raises UsageError for a text that is not Unicode."""
    try:
        return utf8(_encode(value))
    except UnicodeEncodeError as error:
        raise unstorable(error) from error


def seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def utf8(raw: bytes | msgspec.Raw) -> str:
    """JSON as text. What is not JSON (a stray byte, a raw control character) is made storable, so that it cannot hold up
    the batch it travels in."""
    try:
        decoded = str(raw, "utf-8")
    except UnicodeDecodeError:
        decoded = str(raw, "utf-8", "replace")
    if SEPARATOR in decoded or "\x00" in decoded:
        decoded = decoded.replace(SEPARATOR, "\\u0001").replace("\x00", "\\u0000")
    return decoded


def _holds_separator() -> InvalidTask:
    return InvalidTask("A text holds the control character 1, which is not allowed in ids, names or JSON; remove it.")
