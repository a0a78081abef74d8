"""Exponential backoff with jitter after a store error."""

import logging
import random
import time

log = logging.getLogger("stem.worker")

FIRST_SECONDS = 0.1
MOST_SECONDS = 2.0  # so that a store that is back is used again well within ten seconds


class Backoff:
    def __init__(self, doing: str) -> None:
        """`doing` says, for the log, what failed: claiming, settling."""
        self._doing = doing
        self._failures = 0
        self._since = 0.0

    @property
    def is_failing(self) -> bool:
        return self._failures > 0

    def failed(self) -> float:
        """Count a failure; returns the seconds to wait."""
        if not self._failures:
            self._since = time.monotonic()
        full = min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(self._failures, 10))
        self._failures += 1
        return full * random.uniform(0.5, 1.0)  # noqa: S311 - no secret

    def succeeded(self) -> None:
        if self._failures:
            log.info("store.reconnected while %s, after %.1f s", self._doing, time.monotonic() - self._since)
        self._failures = 0
