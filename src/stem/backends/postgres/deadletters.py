"""Dead letters in Postgres."""

from typing import Any

from stem.backends.postgres.bell import news
from stem.backends.postgres.columns import seconds
from stem.backends.postgres.paging import TOP, below
from stem.backends.postgres.records import dead_letter
from stem.backends.postgres.space import Space
from stem.contracts.deadletters import DeadLetters
from stem.core.delivery import DeadFilter, DeadLetter
from stem.core.record import Page


class PostgresDeadLetters(DeadLetters):
    def __init__(self, space: Space) -> None:
        self._space = space

    def get(self, task_id: str) -> DeadLetter | None:
        rows = self._space.ask("dead_page", **_where(DeadFilter(ids=(task_id,))), below=TOP, limit=1)
        return dead_letter(rows[0]) if rows else None

    def page(self, where: DeadFilter, *, limit: int, cursor: str | None = None) -> Page[DeadLetter]:
        if limit <= 0:
            return Page([], None)
        rows = self._space.ask("dead_page", **_where(where), below=below(cursor), limit=limit + 1)
        more = len(rows) > limit
        return Page([dead_letter(row) for row in rows[:limit]], str(rows[limit - 1][-1]) if more else None)

    def replay(
        self, where: DeadFilter, *, limit: int = 1000, delay_seconds: float = 0.0, dry_run: bool = False
    ) -> list[str]:
        chosen = self._space.ask("dead_numbers", **_where(where), limit=limit)
        if dry_run or not chosen:
            return [task_id for task_id, _ in chosen]
        replayed = self._space.call("replay", [number for _, number in chosen], delay_seconds)
        if replayed:
            self._space.tell(news({queue for _, queue in replayed}))
        return [task_id for task_id, _ in replayed]

    def purge(self, where: DeadFilter, *, limit: int = 1000) -> int:
        chosen = self._space.ask("dead_numbers", **_where(where), limit=limit)
        if not chosen:
            return 0
        return int(self._space.ask("dead_purge", numbers=[number for _, number in chosen])[0][0])


def _where(where: DeadFilter) -> dict[str, Any]:
    return {
        "ids": None if where.ids is None else list(where.ids),
        "queue": where.queue,
        "name": where.name,
        "reason": where.reason,
        "since": seconds(where.since),
        "until": seconds(where.until),
    }
