"""Keep dead letters in Postgres."""

from typing import Any

from stem.backends.postgres.codec.paging import TOP, cursor_start
from stem.backends.postgres.codec.rows import dead_letter
from stem.backends.postgres.codec.text_columns import seconds
from stem.backends.postgres.namespace import PostgresNamespace
from stem.backends.postgres.notify.notifier import notification
from stem.contracts.deadletters import DeadLetters
from stem.core.delivery import DeadFilter, DeadLetter
from stem.core.record import Page


class PostgresDeadLetters(DeadLetters):
    def __init__(self, namespace: PostgresNamespace) -> None:
        self._namespace = namespace

    def get(self, task_id: str) -> DeadLetter | None:
        rows = self._namespace.query("dead_page", **_where(DeadFilter(ids=(task_id,))), below=TOP, limit=1)
        return dead_letter(rows[0]) if rows else None

    def page(self, where: DeadFilter, *, limit: int, cursor: str | None = None) -> Page[DeadLetter]:
        if limit <= 0:
            return Page([], None)
        rows = self._namespace.query("dead_page", **_where(where), below=cursor_start(cursor), limit=limit + 1)
        more = len(rows) > limit
        return Page([dead_letter(row) for row in rows[:limit]], str(rows[limit - 1][-1]) if more else None)

    def replay(
        self, where: DeadFilter, *, limit: int = 1000, delay_seconds: float = 0.0, dry_run: bool = False
    ) -> list[str]:
        chosen = self._namespace.query("dead_numbers", **_where(where), limit=limit)
        if dry_run or not chosen:
            return [task_id for task_id, _ in chosen]
        replayed = self._namespace.call("replay", [number for _, number in chosen], delay_seconds)
        if replayed:
            self._namespace.notify(notification({queue for _, queue in replayed}))
        return [task_id for task_id, _ in replayed]

    def purge(self, where: DeadFilter, *, limit: int = 1000) -> int:
        chosen = self._namespace.query("dead_numbers", **_where(where), limit=limit)
        if not chosen:
            return 0
        return int(self._namespace.query("dead_purge", numbers=[number for _, number in chosen])[0][0])


def _where(where: DeadFilter) -> dict[str, Any]:
    return {
        "ids": None if where.ids is None else list(where.ids),
        "queue": where.queue,
        "name": where.name,
        "reason": where.reason,
        "since": seconds(where.since),
        "until": seconds(where.until),
    }
