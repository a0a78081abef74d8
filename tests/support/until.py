"""Wait for a condition, never for a while."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T | None], *, seconds: float = 10.0, every: float = 0.005) -> T:
    """The first true value of the condition; AssertionError when the time is up."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not true within {seconds} s: {condition}"
        time.sleep(every)
    return value
