"""Keep what tasks print in an SQLite file."""

from collections.abc import Sequence

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.contracts.task_logs import MOST_LINES, TaskLogs


class SqliteTaskLogs(TaskLogs):
    def __init__(self, namespace: SqliteNamespace) -> None:
        self._namespace = namespace

    def _append(self, lines: Sequence[tuple[str, str]]) -> None:
        ns, now = self._namespace.ns, self._namespace.now()
        with self._namespace.database.writing() as connection:
            connection.executemany(SQL["task_log_put"], [(ns, task_id, now, body) for task_id, body in lines])
            tasks = dict.fromkeys(task_id for task_id, _ in lines)
            connection.executemany(SQL["task_log_trim"], [(ns, task_id, MOST_LINES) for task_id in tasks])

    def _read(self, task_id: str, after: str | None, limit: int) -> Sequence[tuple[str, str]]:
        given = (self._namespace.ns, task_id, int(after or 0), limit)
        with self._namespace.database.reading() as connection:
            rows = connection.execute(SQL["task_log_read"], given).fetchall()
        return [(str(position), body) for position, body in rows]
