"""Keep what tasks print on Redis: one stream per task."""

from collections.abc import Sequence

from stem.backends.redis.namespace import RedisNamespace, milliseconds
from stem.contracts.task_logs import MOST_LINES, TaskLogs

LINES = 500  # per script call


class RedisTaskLogs(TaskLogs):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace

    def _append(self, lines: Sequence[tuple[str, str]]) -> None:
        kept = milliseconds(self._namespace.retention.logs_seconds)
        for start in range(0, len(lines), LINES):
            given = {"kept": kept, "most": MOST_LINES, "lines": lines[start : start + LINES]}
            self._namespace.run("task_log_append", given)

    def _read(self, task_id: str, after: str | None, limit: int) -> Sequence[tuple[str, bytes]]:
        start = f"({after}" if after else "-"
        key = self._namespace.key(f"log:{task_id}")
        found = self._namespace.client.call("XRANGE", key, start, "+", "COUNT", limit)
        return [(position.decode(), body) for position, (_, body) in found]
