"""Keep recurring schedules in Postgres: an entry, its state and what they enqueue are written in one transaction."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from math import inf
from time import monotonic
from typing import Any

from stem.backends.postgres.codec.push_columns import push
from stem.backends.postgres.codec.text_columns import json_text, seconds
from stem.backends.postgres.connection.deadline_connection import DeadlineConnection, Row
from stem.backends.postgres.namespace import PostgresNamespace
from stem.backends.postgres.notify.notifier import Notification, notification
from stem.backends.postgres.statements import query_text
from stem.contracts.schedules import (
    Scheduled,
    ScheduleEntry,
    Schedules,
    ScheduleState,
    event_of,
    read_scheduled,
    versioned,
)
from stem.core.envelope import Push
from stem.core.record import moment

_BOX = "schedules"  # in notifications of mail, whose own boxes all have a slash
_MOST = 2**31 - 1
_PAGE = 100  # read at once where the first have turned out to be broken


class PostgresSchedules(Schedules):
    def __init__(self, namespace: PostgresNamespace) -> None:
        self._namespace = namespace

    def get(self, entry_id: str) -> Scheduled | None:
        rows = self._namespace.query("schedule_get", id=entry_id)
        if not rows:
            return None
        id, entry, state, revision = rows[0]
        return read_scheduled(id, revision, entry, state)

    def all(self) -> list[Scheduled]:
        return [found for row in self._namespace.query("schedules_all") if (found := _read(row)) is not None]

    def broken(self) -> list[str]:
        return [row[0] for row in self._namespace.query("schedules_all") if _read(row) is None]

    def write(
        self, entry: ScheduleEntry, state: ScheduleState, *, revision: int | None, pushes: Sequence[Push] = ()
    ) -> Scheduled | None:
        written, change = self._namespace.client.transaction(
            lambda conn: self._write_and_push(conn, entry, state, revision, pushes)
        )
        if written is not None:
            change.add(notification(boxes=[_BOX], logged=False))
            self._namespace.notify(change)
        return written

    def delete(self, entry_id: str) -> bool:
        is_deleted = bool(self._namespace.query("schedule_delete", id=entry_id))
        if is_deleted:
            self._namespace.notify(notification(boxes=[_BOX], logged=False))
        return is_deleted

    def due(self, *, limit: int) -> list[Scheduled]:
        if limit <= 0:
            return []
        return [found for found, _, _ in islice(self._by_due(within=0.0, limit=min(limit, _MOST)), limit)]

    def next_due_at(self) -> datetime | None:
        for _, due_at, _ in self._by_due(within=inf, limit=1):
            return moment(due_at)
        return None

    def wait(self, *, timeout_seconds: float) -> bool:
        before: tuple[list[Row], int | None] | None = None
        due_at = inf  # by the machine's monotonic clock

        def look(left: float) -> bool:
            nonlocal before, due_at
            latest = self._namespace.query("schedules_changed", timeout_seconds=left)
            earliest = next(self._by_due(within=inf, limit=1, timeout_seconds=left), None)
            figures = (latest, None if earliest is None else earliest[0].revision)
            if before is not None and figures != before:  # the notification was lost, or a pooler swallows all
                return True
            before = figures
            due_at = inf if earliest is None else monotonic() + earliest[2]
            return due_at <= monotonic()

        found = self._namespace.listeners.mail.wait_until(
            _concerns, look, timeout_seconds, lambda: due_at - monotonic() + 0.001, on_notification=True
        )
        return bool(found)

    def _write_and_push(
        self,
        conn: DeadlineConnection,
        entry: ScheduleEntry,
        state: ScheduleState,
        revision: int | None,
        pushes: Sequence[Push],
    ) -> tuple[Scheduled | None, Notification]:
        written = self._create(conn, entry, state) if revision == 0 else self._replace(conn, entry, state, revision)
        if written is None or not pushes:
            return written, Notification()
        pushed = push(lambda query, values: conn.execute(query, values).fetchall(), self._namespace, pushes)
        calls = [each.envelope for each, receipt in zip(pushes, pushed.receipts, strict=True) if receipt.created]
        data = [json_text(event_of(entry, call)) for call in calls]
        self._execute(conn, "schedule_events", ids=[call.id for call in calls], data=data)
        return written, pushed.change

    def _create(self, conn: DeadlineConnection, entry: ScheduleEntry, state: ScheduleState) -> Scheduled | None:
        return self._put(conn, "schedule_create", versioned(entry, None), state)

    def _replace(
        self, conn: DeadlineConnection, entry: ScheduleEntry, state: ScheduleState, revision: int | None
    ) -> Scheduled | None:
        rows = self._execute(conn, "schedule_lock", id=entry.id)
        if not rows:
            return None
        stored = _read(rows[0])
        if (None if stored is None else stored.revision) != revision:
            return None
        return self._put(conn, "schedule_replace", versioned(entry, None if stored is None else stored.entry), state)

    def _put(self, conn: DeadlineConnection, name: str, entry: ScheduleEntry, state: ScheduleState) -> Scheduled | None:
        values = {"entry": json_text(entry), "state": json_text(state), "due_at": seconds(state.due_at)}
        rows = self._execute(conn, name, id=entry.id, **values)
        return Scheduled(entry, state, rows[0][0]) if rows else None

    def _execute(self, conn: DeadlineConnection, name: str, **values: Any) -> list[Row]:
        query = query_text(name, self._namespace.schema)
        return conn.execute(query, {"ns": self._namespace.name, **values}).fetchall()

    def _by_due(
        self, *, within: float, limit: int, timeout_seconds: float | None = None
    ) -> Iterator[tuple[Scheduled, float, float]]:
        """Those that can be read, each with its due time and the seconds until then, earliest first. As many as the limit are
        read from the store at first, more if somebody goes on."""
        after, after_id = -inf, ""
        while True:
            rows = self._namespace.query(
                "schedules_by_due",
                within=within,
                after=after,
                after_id=after_id,
                limit=limit,
                timeout_seconds=timeout_seconds,
            )
            for row in rows:
                found = _read(row[:4])
                if found is not None:
                    yield found, row[4], row[5]
            if len(rows) < limit:
                return
            after_id, after, limit = rows[-1][0], rows[-1][4], max(limit, _PAGE)


def _read(row: Row) -> Scheduled | None:
    """None if it is not what `write` has stored."""
    id, entry, state, revision = row
    return read_scheduled(id, revision, entry, state, is_strict=False)


def _concerns(change: Notification) -> bool:
    return _BOX in change.boxes
