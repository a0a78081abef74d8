"""Logs the first of many similar lines at once, and the rest as a count per interval."""

import logging
import time
from threading import Lock

from stem.runtime.clock import Clock

INTERVAL_SECONDS = 60.0


class SummedLog:
    """A log that forged commands cannot flood. Call `flush` at intervals to log the remaining count."""

    def __init__(
        self, log: logging.Logger, *, interval_seconds: float = INTERVAL_SECONDS, clock: Clock = time.monotonic
    ) -> None:
        self._log = log
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._lock = Lock()
        self._told_at = -interval_seconds
        self._untold = 0
        self._last = ""

    def warning(self, sentence: str, count: int = 1) -> None:
        with self._lock:
            self._untold, self._last = self._untold + count, sentence
            self._tell()

    def flush(self) -> None:
        with self._lock:
            if self._untold:
                self._tell()

    def _tell(self) -> None:
        now = self._clock()
        if now - self._told_at >= self._interval_seconds:
            more = f" (and {self._untold - 1:,} more since the last such line)" if self._untold > 1 else ""
            self._log.warning("%s%s", self._last, more)
            self._told_at, self._untold = now, 0
