"""Keep what tasks print in memory."""

from collections import deque
from collections.abc import Sequence
from itertools import islice

from stem.backends.memory.state import MemoryState
from stem.contracts.task_logs import MOST_LINES, TaskLogs


class MemoryTaskLogs(TaskLogs):
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def _append(self, lines: Sequence[tuple[str, str]]) -> None:
        with self._state.changed:
            now = self._state.clock()
            for task_id, body in lines:
                kept = self._state.task_logs.setdefault(task_id, deque(maxlen=MOST_LINES))
                kept.append((self._state.number("log"), now, body))

    def _read(self, task_id: str, after: str | None, limit: int) -> Sequence[tuple[str, str]]:
        with self._state.changed:
            found = self._state.task_logs.get(task_id, ())
            later = ((str(position), body) for position, _, body in found if position > int(after or 0))
            return list(islice(later, limit))


def prune(state: MemoryState) -> int:
    """Under the state's lock."""
    horizon, pruned = state.clock() - state.retention.logs_seconds, 0
    for task_id, lines in list(state.task_logs.items()):
        while lines and lines[0][1] <= horizon:
            lines.popleft()
            pruned += 1
        if not lines:
            del state.task_logs[task_id]
    return pruned
