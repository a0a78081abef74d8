"""What tasks print and log: the newest lines of each task, for a while."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import msgspec

MOST_LINES = 1000  # of one task, over all its attempts


class LogLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line, or one log record with all its lines. `at` is in seconds since 1970, by the clock of the worker."""

    task_id: str
    attempt: int
    at: float
    level: str
    text: str


class StoredLine(msgspec.Struct, frozen=True):
    """`position` is opaque text: ask for what follows it."""

    position: str
    line: LogLine


class TaskLogs(ABC):
    """Lines are kept for `retention.logs_seconds`, at most MOST_LINES per task; the oldest go first."""

    def append(self, lines: Iterable[LogLine]) -> None:
        """Store the lines in their order. Twice is twice. A call that fails may have stored some."""
        found = [(line.task_id, _encode(line).decode()) for line in lines]
        if found:
            self._append(found)

    def read(self, task_id: str, *, after: str | None = None, limit: int = MOST_LINES) -> list[StoredLine]:
        """The lines of a task after the position, in order; None: from the oldest kept. An unknown task has none."""
        return [StoredLine(position, _decode(body)) for position, body in self._read(task_id, after, limit)]

    @abstractmethod
    def _append(self, lines: Sequence[tuple[str, str]]) -> None:
        """Task ids and lines as JSON, at least one."""

    @abstractmethod
    def _read(self, task_id: str, after: str | None, limit: int) -> Sequence[tuple[str, str | bytes]]:
        """Positions and lines as JSON."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(LogLine).decode
