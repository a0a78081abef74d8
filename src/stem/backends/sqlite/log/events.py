"""Keep the event log in an SQLite file. One writer at a time assigns offsets, so events commit in order."""

import msgspec

from stem.backends.sqlite.log import event_rows
from stem.backends.sqlite.log.event_rows import Line
from stem.backends.sqlite.namespace import SqliteNamespace
from stem.contracts.events import Events
from stem.core.event import Event
from stem.core.lifecycle import EventKind
from stem.core.record import moment, moment_or_none

_KINDS = {kind.value: kind for kind in EventKind}


class SqliteEvents(Events):
    def __init__(self, namespace: SqliteNamespace) -> None:
        self._namespace = namespace

    def read(self, after: str | None, *, limit: int) -> list[Event]:
        with self._namespace.database.reading() as connection:
            lines = event_rows.read(connection, self._namespace, int(after or 0), limit)
        return [_event(offset, line) for offset, line in lines]

    def head(self) -> str | None:
        head = self._head()
        return None if head is None else str(head)

    def wait(self, after: str | None, *, timeout_seconds: float) -> bool:
        floor = int(after or 0)
        return self._namespace.sleep_until(lambda: (self._head() or 0) > floor, timeout_seconds, {"events"})

    def _head(self) -> int | None:
        with self._namespace.database.reading() as connection:
            return event_rows.head(connection, self._namespace)

    def _note(self, kind: EventKind, worker: str, data: msgspec.Raw) -> None:
        with self._namespace.database.writing() as connection:
            now = self._namespace.now()
            line = (kind.value, now, "", "", "", 0, worker, now, None, msgspec.json.decode(data))
            event_rows.append(connection, self._namespace, [line])
        self._namespace.ring({"events"})


def _event(offset: int, line: Line) -> Event:
    kind, at, task_id, name, queue, attempt, worker, enqueued_at, started_at, data = line
    return Event(
        offset=str(offset),
        kind=_KINDS[kind],
        at=moment(at),
        task_id=task_id,
        name=name,
        queue=queue,
        attempt=attempt,
        worker=worker,
        enqueued_at=moment(enqueued_at),
        started_at=moment_or_none(started_at),
        data=data or {},
    )
