"""How far a lake has read: text as numbers, for a commit of a Delta table can carry nothing but numbers along with its files."""

from collections.abc import Callable

_BYTES = 7  # of a number that every reader of Delta takes for positive


def numbers_of(text: str) -> dict[str, int]:
    """By the name of each; how long the text is comes first."""
    stored = text.encode()
    parts = [stored[start : start + _BYTES] for start in range(0, len(stored), _BYTES)]
    return {"bytes": len(stored), **{f"bytes.{n}": int.from_bytes(part) for n, part in enumerate(parts)}}


def text_of(number: Callable[[str], int | None]) -> str | None:
    """What `numbers_of` made these of; None if there are none. What a longer text before it left is not read."""
    length = number("bytes")
    if length is None:
        return None
    stored = b""
    while len(stored) < length:
        part = min(_BYTES, length - len(stored))
        stored += (number(f"bytes.{len(stored) // _BYTES}") or 0).to_bytes(part)
    return stored.decode()
