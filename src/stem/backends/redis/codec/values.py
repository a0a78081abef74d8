"""Convert moments and JSON to and from the values that scripts use: whole microseconds, and JSON as text."""

from datetime import datetime
from typing import Any

import msgspec

from stem.backends.redis.namespace import microseconds
from stem.core.record import moment

_encoder = msgspec.json.Encoder()


def at(value: datetime) -> int:
    return microseconds(value.timestamp())


def when(value: int) -> datetime:
    return moment(value / 1_000_000)


def at_or_false(value: datetime | None) -> int | bool:
    return False if value is None else at(value)


def when_or_none(value: int | bool) -> datetime | None:
    return None if value is False else when(value)


def json(value: Any) -> str:
    return _encoder.encode(value).decode()


def texts(meta: dict[str, Any]) -> dict[str, str] | bool:
    """False for none: Lua could not tell an empty object from an empty list."""
    return {key: json(value) for key, value in meta.items()} if meta else False
