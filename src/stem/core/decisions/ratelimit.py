"""A token bucket that limits how often a task starts, across all workers. Pure: the store passes the time."""

import re
from typing import NamedTuple

import msgspec

from stem.core.errors import InvalidTask

HORIZON_SECONDS = 60.0  # the longest wait that is promised
# Over the burst, while there are promises: one that comes a little late for a promised token must find it, and leave the next
# one where it was promised. Without this a burst of 1 loses a third of its rate.
KEPT_TOKENS = 0.5
GRACE_SECONDS = 1e-6  # clocks are no finer: a retry at the promised time must not miss its token by rounding

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)?\s*([smhd])\s*", re.ASCII)


class Rate(msgspec.Struct, frozen=True):
    """`tokens` starts every `per_seconds`."""

    tokens: float
    per_seconds: float


class Level(NamedTuple):
    """The state of a bucket: tokens left, and for how long future tokens are promised."""

    tokens: float
    promised_seconds: float
    pace_seconds: float  # a token
    updated_at: float


def parse_rate(text: str) -> Rate:
    """`5/s`, `100/m`, `1000/h`, `1/d`, or a number of units: `5/10s`."""
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is not None:
        tokens, units, unit = match.groups()
        rate = Rate(float(tokens), float(units or 1) * _SECONDS[unit])
        if rate.tokens > 0 and rate.per_seconds > 0:
            return rate
    raise InvalidTask(f"Rate limit {text!r} is not a count over a time; write it like '5/s', '100/m' or '1000/h'.")


def default_burst(rate: Rate) -> float:
    """One second's worth of tokens, at least 1."""
    return max(1.0, rate.tokens / rate.per_seconds)


def take(
    level: Level | None, *, pace_seconds: float, burst: float, now: float, random_fraction: float
) -> tuple[float, Level]:
    """Take a token: returns 0 if granted, else the seconds to wait, and the new level. None is a full bucket.

    Each refusal is promised a token of its own, so that a backlog does not return all at once. Past the horizon no token is
    promised: `random_fraction` (0 to 1) spreads the refusals over its later half, and the level stays as it was.
    """
    level = level or Level(burst, 0.0, pace_seconds, now)
    if level.updated_at > now:  # a clock was set back: go on from here, or nothing would come until it has caught up
        level = level._replace(updated_at=now)
    tokens, promised_seconds = _now_in(level, pace_seconds, burst, now)
    missing_seconds = (1.0 - tokens) * pace_seconds
    if missing_seconds <= GRACE_SECONDS:
        return 0.0, Level(tokens - 1.0, promised_seconds, pace_seconds, now)
    wait_seconds = max(promised_seconds, missing_seconds)
    horizon_seconds = max(HORIZON_SECONDS, 2 * pace_seconds)
    if wait_seconds > horizon_seconds:
        return horizon_seconds * (1.0 + random_fraction) / 2, level
    return wait_seconds, Level(tokens, wait_seconds + pace_seconds, pace_seconds, now)


def full_at(level: Level, burst: float) -> float:
    """Return when the bucket will be full again, so that its level can be dropped."""
    return level.updated_at + max(level.promised_seconds, (burst - level.tokens) * level.pace_seconds)


def _now_in(level: Level, pace_seconds: float, burst: float, now: float) -> tuple[float, float]:
    """Return the tokens and promises as of now. Promises made at another rate are void."""
    passed_seconds = now - level.updated_at
    promised_seconds = level.promised_seconds if level.pace_seconds == pace_seconds else 0.0
    most = burst + KEPT_TOKENS if promised_seconds > 0 else burst
    tokens = min(most, level.tokens + passed_seconds / pace_seconds)
    return tokens, max(0.0, promised_seconds - passed_seconds)
