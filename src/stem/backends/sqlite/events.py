"""The event log in an SQLite file. One writer at a time gives out the offsets, so none ever commits out of turn."""

from stem.backends.sqlite.space import Space
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.task import from_json
from stem.contracts.events import Events
from stem.core.event import Event
from stem.core.lifecycle import EventKind
from stem.core.record import moment, moment_or_none

_KINDS = {kind.value: kind for kind in EventKind}


class SqliteEvents(Events):
    def __init__(self, space: Space) -> None:
        self._space = space

    def read(self, after: str | None, *, limit: int) -> list[Event]:
        first = self._space.first
        with self._space.file.reading() as connection:
            rows = connection.execute(
                SQL["event_read"], (first + int(after or 0), self._space.last, max(limit, 0))
            ).fetchall()
        return [
            Event(
                offset=str(seq - first),
                kind=_KINDS[kind],
                at=moment(at),
                task_id=task_id,
                name=name,
                queue=queue,
                attempt=attempt,
                worker=worker,
                enqueued_at=moment(enqueued_at),
                started_at=moment_or_none(started_at),
                data=from_json(data),
            )
            for seq, kind, at, task_id, name, queue, attempt, worker, enqueued_at, started_at, data in rows
        ]

    def head(self) -> str | None:
        head = self._head()
        return None if head is None else str(head)

    def wait(self, after: str | None, *, timeout_seconds: float) -> bool:
        floor = int(after or 0)
        return self._space.sleep_until(lambda: (self._head() or 0) > floor, timeout_seconds, {"events"})

    def _head(self) -> int | None:
        with self._space.file.reading() as connection:
            (seq,) = connection.execute(SQL["event_last"], (self._space.first, self._space.last)).fetchone()
        return None if seq is None else int(seq) - self._space.first
