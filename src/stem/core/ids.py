"""UUIDv7 task ids, and ids and keys derived from content. Pure: the caller brings the time and the dice."""

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec


def uuid7(now_seconds: float, random_bytes: bytes) -> str:
    """A time-ordered id from a wall-clock moment and ten random bytes."""
    value = (int(now_seconds * 1000) << 80) | int.from_bytes(random_bytes[:10], "big")
    value = value & ~(0xF << 76) | (0x7 << 76)
    value = value & ~(0x3 << 62) | (0x2 << 62)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def content_key(parts: Iterable[Any]) -> str:
    """The same key for the same content, whatever the order of its object keys."""
    return hashlib.sha256(msgspec.json.encode(list(parts), order="sorted")).hexdigest()
