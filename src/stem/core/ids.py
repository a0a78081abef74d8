"""UUIDv7 task ids, and ids and keys derived from content. Pure: the caller passes time and randomness."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from stem.core.text.plain import to_plain


def uuid7(now_seconds: float, random_bytes: bytes) -> str:
    """Return a time-ordered id from a wall-clock time and ten random bytes."""
    moment, chance = f"{int(now_seconds * 1000):012x}", random_bytes.hex()
    variant = "89ab"[random_bytes[9] & 3]
    return f"{moment[:8]}-{moment[8:]}-7{chance[:3]}-{variant}{chance[3:6]}-{chance[6:18]}"


def canonical(value: Any) -> msgspec.Raw:
    """Return the same JSON for the same value, whatever the order of its keys and sets and the time zones of its moments.
    Raises TypeError for a set that has no order."""
    plain = msgspec.to_builtins(
        value, str_keys=True, order="deterministic", builtin_types=(datetime,), enc_hook=to_plain
    )
    return msgspec.Raw(msgspec.json.encode(_in_utc(plain), order="sorted"))


def content_key(parts: Iterable[Any]) -> str:
    """Return the same key for the same content, whatever the order of its object keys."""
    return hashlib.sha256(msgspec.json.encode(list(parts), order="sorted")).hexdigest()


def _in_utc(value: Any) -> Any:
    match value:
        case datetime(tzinfo=zone) if zone is not None:
            return value.astimezone(UTC)
        case dict():
            return {name: _in_utc(part) for name, part in value.items()}
        case list() | tuple():
            return [_in_utc(part) for part in value]
        case _:
            return value
