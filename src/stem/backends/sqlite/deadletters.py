"""Keep dead letters in an SQLite file."""

from typing import Any

import msgspec

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks.task_row import by_seq, from_json
from stem.backends.sqlite.tasks.write_batch import WriteBatch
from stem.contracts.deadletters import DeadLetters
from stem.core.delivery import DeadFilter, DeadLetter
from stem.core.record import Page, TaskError, moment, replay_notes, with_replays


class SqliteDeadLetters(DeadLetters):
    def __init__(self, namespace: SqliteNamespace) -> None:
        self._namespace = namespace

    def get(self, task_id: str) -> DeadLetter | None:
        with self._namespace.database.reading() as connection:
            row = connection.execute(SQL["dead_get"], (self._namespace.ns, task_id)).fetchone()
        return _letter(row) if row else None

    def page(self, where: DeadFilter, *, limit: int, cursor: str | None = None) -> Page[DeadLetter]:
        if limit <= 0:
            return Page([], None)
        parameters = self._parameters(where, limit + 1, cursor)
        with self._namespace.database.reading() as connection:
            rows = connection.execute(SQL["dead_page"], parameters).fetchall()
        more = len(rows) > limit
        last = str(rows[limit - 1][0] - self._namespace.first) if more else None
        return Page([_letter(row) for row in rows[:limit]], last)

    def replay(
        self, where: DeadFilter, *, limit: int = 1000, delay_seconds: float = 0.0, dry_run: bool = False
    ) -> list[str]:
        parameters = self._parameters(where, limit)
        if dry_run:
            with self._namespace.database.reading() as connection:
                return [id for _, id in connection.execute(SQL["dead_chosen"], parameters)]
        with self._namespace.database.writing() as connection:
            chosen = connection.execute(SQL["dead_chosen"], parameters).fetchall()
            batch = WriteBatch(self._namespace, self._namespace.now())
            for task in by_seq(connection, [seq for seq, _ in chosen]):
                batch.add["dead_delete"]((task.seq,))
                task.attempt = task.deaths = 0
                task.error = task.finished_at = task.expires_at = task.heartbeat_at = None
                task.merge_meta(replay_notes(from_json(task.meta), moment(batch.now)))
                batch.wait_again(task, batch.now + delay_seconds)
                batch.tell("replayed", task, batch.now)
            batch.write(connection)
        self._namespace.ring(batch.topics)
        return [id for _, id in chosen]

    def purge(self, where: DeadFilter, *, limit: int = 1000) -> int:
        with self._namespace.database.writing() as connection:
            chosen = connection.execute(SQL["dead_chosen"], self._parameters(where, limit)).fetchall()
            seqs = [(seq,) for seq, _ in chosen]
            connection.executemany(SQL["dead_delete"], seqs)
            connection.executemany(SQL["dead_drop"], seqs)
        return len(chosen)

    def _parameters(self, where: DeadFilter, limit: int, cursor: str | None = None) -> dict[str, Any]:
        return {
            "first": self._namespace.first,
            "last": self._namespace.last if cursor is None else self._namespace.first + int(cursor) - 1,
            "ids": None if where.ids is None else msgspec.json.encode(where.ids).decode(),
            "queue": where.queue,
            "name": where.name,
            "reason": where.reason,
            "since": None if where.since is None else where.since.timestamp(),
            "until": None if where.until is None else where.until.timestamp(),
            "limit": max(limit, 0),  # SQLite takes a negative one for none
        }


def _letter(row: tuple[Any, ...]) -> DeadLetter:
    _, id, name, queue, attempt, reason, error, meta, dead_at, body, worker, record_meta = row
    known = None if error is None else msgspec.json.decode(error, type=TaskError)
    told = with_replays(from_json(meta), from_json(record_meta))
    return DeadLetter(id, name, queue, attempt, reason, known, told, moment(dead_at), body, worker)
