"""Keep schedules in an SQLite file."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from math import inf
from typing import Any

import msgspec

from stem.backends.sqlite.broker import SqliteBroker
from stem.backends.sqlite.log import event_rows
from stem.backends.sqlite.log.event_rows import Line
from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.contracts.schedules import (
    Scheduled,
    ScheduleEntry,
    Schedules,
    ScheduleState,
    event_of,
    read_scheduled,
    versioned,
)
from stem.core import envelope as envelopes
from stem.core.envelope import Push

_TOPIC = "schedules"


class SqliteSchedules(Schedules):
    def __init__(self, namespace: SqliteNamespace, broker: SqliteBroker) -> None:
        self._namespace = namespace
        self._broker = broker

    def get(self, entry_id: str) -> Scheduled | None:
        with self._namespace.database.reading() as connection:
            row = self._row(connection, entry_id)
        return None if row is None else read_scheduled(_shown(row[0]), *row[1:])

    def all(self) -> list[Scheduled]:
        return _readable(self._rows())

    def broken(self) -> list[str]:
        rows = self._rows()
        return [_shown(row[0]) for row in rows if not _readable([row])]

    def write(
        self, entry: ScheduleEntry, state: ScheduleState, *, revision: int | None, pushes: Sequence[Push] = ()
    ) -> Scheduled | None:
        namespace = self._namespace
        bodies = [envelopes.encode(push.envelope) for push in pushes]
        with namespace.database.writing() as connection:
            row = self._row(connection, entry.id)
            stored = _readable([row]) if row is not None else []
            expected = stored[0].revision if stored else 0 if row is None else None
            if revision != expected:
                return None
            version = versioned(entry, stored[0].entry if stored else None)
            written = Scheduled(version, state, namespace.take_numbers(connection, "schedule"))
            connection.execute(SQL["schedule_put"], (namespace.ns, entry.id, *_columns(written)))
            topics = self._push(connection, entry, pushes, bodies) if pushes else set()
        namespace.ring({*topics, _TOPIC})
        return written

    def delete(self, entry_id: str) -> bool:
        namespace = self._namespace
        with namespace.database.writing() as connection:
            namespace.take_numbers(connection, "schedule")
            is_deleted = self._delete(connection, entry_id)
            if not is_deleted:
                unreadable = (row[0] for row in self._all(connection) if _shown(row[0]) == entry_id)
                is_deleted = any(self._delete(connection, raw) for raw in unreadable)
        namespace.ring({_TOPIC})
        return is_deleted

    def due(self, *, limit: int) -> list[Scheduled]:
        return self._earliest(self._namespace.now(), max(0, limit))

    def next_due_at(self) -> datetime | None:
        return next((each.state.due_at for each in self._earliest(inf, 1)), None)

    def wait(self, *, timeout_seconds: float) -> bool:
        namespace = self._namespace
        seen = self._last_number()

        def is_true() -> bool:
            return self._last_number() != seen or bool(self.due(limit=1))

        def until_due() -> float:
            due_at = self.next_due_at()
            return inf if due_at is None else due_at.timestamp() - namespace.clock()

        return namespace.sleep_until(is_true, timeout_seconds, {_TOPIC}, until_due, is_always_rung=True)

    def _push(
        self, connection: sqlite3.Connection, entry: ScheduleEntry, pushes: Sequence[Push], bodies: Sequence[bytes]
    ) -> set[str]:
        """Push, and tell of what was created; returns the topics to ring."""
        receipts, batch = self._broker.push_in(connection.cursor(), pushes, bodies)
        calls = [push.envelope for push, receipt in zip(pushes, receipts, strict=True) if receipt.created]
        lines: list[Line] = [
            ("scheduled", batch.now, call.id, call.name, call.queue, 0, None, batch.now, None, event_of(entry, call))
            for call in calls
        ]
        event_rows.append(connection, self._namespace, lines)
        return batch.topics

    def _delete(self, connection: sqlite3.Connection, entry_id: str | bytes) -> bool:
        return connection.execute(SQL["schedule_delete"], (self._namespace.ns, entry_id)).rowcount > 0

    def _row(self, connection: sqlite3.Connection, entry_id: str) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = connection.execute(SQL["schedule_get"], (self._namespace.ns, entry_id)).fetchone()
        return row

    def _rows(self) -> list[tuple[Any, ...]]:
        with self._namespace.database.reading() as connection:
            return self._all(connection)

    def _all(self, connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
        return connection.execute(SQL["schedule_all"], (self._namespace.ns,)).fetchall()

    def _earliest(self, until: float, limit: int) -> list[Scheduled]:
        """Those due up to then. Read one by one: entries that cannot be read are passed over, and none of them takes a place."""
        with self._namespace.database.reading() as connection:
            rows = connection.execute(SQL["schedule_due"], (self._namespace.ns, until))
            found = (_read(row) for row in rows)
            return list(islice((each for each in found if each is not None), limit))

    def _last_number(self) -> int:
        with self._namespace.database.reading() as connection:
            return self._namespace.last_number(connection, "schedule")


def _columns(written: Scheduled) -> tuple[Any, ...]:
    due_at = written.state.due_at
    entry, state = msgspec.json.encode(written.entry), msgspec.json.encode(written.state)
    return (written.revision, None if due_at is None else due_at.timestamp(), entry, state)


def _readable(rows: Sequence[tuple[Any, ...]]) -> list[Scheduled]:
    return [found for row in rows if (found := _read(row)) is not None]


def _read(row: tuple[Any, ...]) -> Scheduled | None:
    return read_scheduled(_shown(row[0]), *row[1:], is_strict=False)


def _shown(raw: bytes) -> str:
    """The id; a hand may have written one that is not UTF-8."""
    return raw.decode(errors="backslashreplace")
