"""Try again while the store is away for a moment, until the deadline of one call."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from stem.core.errors import StoreUnavailable

T = TypeVar("T")
FIRST_SECONDS = 0.05
MOST_SECONDS = 0.5


def patiently(work: Callable[[], T], seconds: float) -> T:
    """For work that may be done twice without harm. Raises the last StoreUnavailable when the time is up."""
    deadline, pause = time.monotonic() + seconds, FIRST_SECONDS
    while True:
        try:
            return work()
        except StoreUnavailable:
            if time.monotonic() + pause >= deadline:
                raise
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        pause = min(pause * 2, MOST_SECONDS)
