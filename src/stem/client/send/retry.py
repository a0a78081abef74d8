"""Retries a call while the store is unavailable, with exponential backoff and jitter."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from stem.core.errors import StoreUnavailable

T = TypeVar("T")
FIRST_SECONDS = 0.05
MOST_SECONDS = 0.5


def retry_while_unavailable(work: Callable[[], T], seconds: float) -> T:
    """Repeat idempotent work for up to `seconds`. Raises the last StoreUnavailable."""
    deadline, pause = time.monotonic() + seconds, FIRST_SECONDS
    while True:
        try:
            return work()
        except StoreUnavailable:
            if time.monotonic() + pause >= deadline:
                raise
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        pause = min(pause * 2, MOST_SECONDS)
