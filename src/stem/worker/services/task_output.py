"""Keep what tasks print and log in the store, in batches. Tasks never wait for it."""

import logging
from collections import deque
from collections.abc import Sequence
from threading import Lock

from stem.contracts.task_logs import LogLine, TaskLogs
from stem.core.errors import StemError

log = logging.getLogger("stem.worker")

WRITE_SECONDS = 0.5
MOST_WAITING = 20_000  # lines in memory
AT_ONCE = 2000


class TaskOutputWriter:
    """`add` is called in the pool's thread, `tick` by a thread of its own.

    Lines that come faster than they can be written, or while the store is away, are dropped and counted.
    """

    def __init__(self, logs: TaskLogs) -> None:
        self._logs = logs
        self._lock = Lock()
        self._waiting: deque[LogLine] = deque()
        self._dropped = 0

    def add(self, lines: Sequence[LogLine]) -> None:
        with self._lock:
            room = MOST_WAITING - len(self._waiting)
            self._waiting.extend(lines[:room] if room < len(lines) else lines)
            self._dropped += max(0, len(lines) - room)

    def tick(self) -> None:
        """Write what has come together."""
        try:
            while batch := self._next():
                self._logs.append(batch)
        except StemError as error:
            with self._lock:
                self._dropped += len(batch) + len(self._waiting)
                self._waiting.clear()
            self._tell(f"the store does not take them ({error})")
        else:
            self._tell("they came faster than they could be written")

    def _next(self) -> list[LogLine]:
        with self._lock:
            return [self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))]

    def _tell(self, reason: str) -> None:
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            log.warning("task_logs.dropped lines=%d: %s", dropped, reason)
