"""Encode a position as numbers, because a commit of a Delta table can carry only numbers besides its files."""

from collections.abc import Callable

_BYTES = 7  # per number, so that every reader of Delta takes it for positive


def numbers_of(text: str) -> dict[str, int]:
    """The numbers by name; the length of the text comes first."""
    stored = text.encode()
    parts = [stored[start : start + _BYTES] for start in range(0, len(stored), _BYTES)]
    return {"bytes": len(stored), **{f"bytes.{n}": int.from_bytes(part) for n, part in enumerate(parts)}}


def text_of(number: Callable[[str], int | None]) -> str | None:
    """The text that `numbers_of` encoded; None if there is none. Left-overs of a longer text are ignored."""
    length = number("bytes")
    if length is None:
        return None
    stored = b""
    while len(stored) < length:
        part = min(_BYTES, length - len(stored))
        stored += (number(f"bytes.{len(stored) // _BYTES}") or 0).to_bytes(part)
    return stored.decode()
