"""How often a task may start, over the whole fleet."""

import re

import msgspec

from stem.core.errors import InvalidTask

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)?\s*([smhd])\s*", re.ASCII)


class Rate(msgspec.Struct, frozen=True):
    """`tokens` starts every `per_seconds`."""

    tokens: float
    per_seconds: float


def parse_rate(text: str) -> Rate:
    """`5/s`, `100/m`, `1000/h`, `1/d`, or a number of units: `5/10s`."""
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is not None:
        tokens, units, unit = match.groups()
        rate = Rate(float(tokens), float(units or 1) * _SECONDS[unit])
        if rate.tokens > 0 and rate.per_seconds > 0:
            return rate
    raise InvalidTask(f"Rate limit {text!r} is not a count over a time; write it like '5/s', '100/m' or '1000/h'.")
