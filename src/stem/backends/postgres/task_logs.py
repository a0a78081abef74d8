"""Keep what tasks print in Postgres."""

from collections.abc import Sequence

from stem.backends.postgres.namespace import PostgresNamespace
from stem.contracts.task_logs import MOST_LINES, TaskLogs


class PostgresTaskLogs(TaskLogs):
    def __init__(self, namespace: PostgresNamespace) -> None:
        self._namespace = namespace

    def _append(self, lines: Sequence[tuple[str, str]]) -> None:
        ids, bodies = (list(column) for column in zip(*lines, strict=True))
        self._namespace.query("task_log_put", ids=ids, bodies=bodies)
        self._namespace.query("task_log_trim", ids=sorted(set(ids)), most=MOST_LINES)

    def _read(self, task_id: str, after: str | None, limit: int) -> Sequence[tuple[str, str]]:
        rows = self._namespace.query("task_log_read", id=task_id, after=int(after or 0), limit=limit)
        return [(str(position), body) for position, body in rows]
