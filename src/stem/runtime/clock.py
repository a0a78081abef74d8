"""Where the time comes from, so that tests can bring their own."""

import time
from collections.abc import Callable

Clock = Callable[[], float]

system_clock: Clock = time.time


def skew_seconds(theirs: Clock) -> float:
    """How far this machine's clock is ahead of theirs; measured against the middle of the question, so that a slow line is
    not taken for a wrong clock."""
    before = time.time()
    now = theirs()
    return (before + time.time()) / 2 - now


class FakeClock:
    """A clock that moves only when told to."""

    def __init__(self, now: float = 1_750_000_000.0) -> None:
        self._now = now

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds
