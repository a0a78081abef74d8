"""Computes the delay before the next attempt. Pure: the caller passes the random number."""

import msgspec

from stem.core.bounds import Seconds, Share


class Exponential(msgspec.Struct, frozen=True, tag="exponential", rename="camel"):
    """base · 2ⁿ up to a cap, of which the share `jitter` (0 to 1) is random."""

    base_seconds: Seconds = 2.0
    cap_seconds: Seconds = 300.0
    jitter: Share = 0.5


class Fixed(msgspec.Struct, frozen=True, tag="fixed", rename="camel"):
    """The same delay before every retry."""

    delay_seconds: Seconds


class Delays(msgspec.Struct, frozen=True, tag="delays", rename="camel"):
    """One delay per attempt; the last one repeats."""

    seconds: tuple[Seconds, ...]


RetryStrategy = Exponential | Fixed | Delays


def delay(strategy: RetryStrategy, attempt: int, random_fraction: float) -> float:
    """Seconds to wait after failed `attempt` (0 is the first); `random_fraction` is in [0, 1)."""
    match strategy:
        case Exponential(base, cap, jitter):
            full = min(cap, base * 2.0 ** min(attempt, 64))
            return full * (1.0 - jitter * random_fraction)
        case Fixed(seconds):
            return seconds
        case Delays(seconds=steps):
            return steps[min(attempt, len(steps) - 1)] if steps else 0.0
