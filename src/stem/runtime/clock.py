"""Clocks: the system's, and one for tests."""

import time
from collections.abc import Callable

Clock = Callable[[], float]

system_clock: Clock = time.time


def skew_seconds(theirs: Clock) -> float:
    """Return how far this machine's clock is ahead of theirs. Measured at the middle of the request, so that a slow network
    does not count as skew."""
    before = time.time()
    now = theirs()
    return (before + time.time()) / 2 - now


class FakeClock:
    """A clock for tests, which moves only by `advance`."""

    def __init__(self, now: float = 1_750_000_000.0) -> None:
        self._now = now

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds
