"""Keep task records in an SQLite file."""

from collections.abc import Sequence
from math import inf
from typing import Any

import msgspec

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks.task_row import from_json, json_or_none
from stem.contracts.results import Results
from stem.core.lifecycle import State
from stem.core.record import Page, TaskError, TaskFilter, TaskRecord, moment, moment_or_none, noted

_STATES = {state.value: state for state in State}


class SqliteResults(Results):
    def __init__(self, namespace: SqliteNamespace) -> None:
        self._namespace = namespace

    def get(self, task_ids: Sequence[str], *, past_retention: bool = False) -> dict[str, TaskRecord]:
        with self._namespace.database.reading() as connection:
            given = (self._namespace.ns, _ids(task_ids), -inf if past_retention else self._horizon())
            rows = connection.execute(SQL["record_get"], given).fetchall()
        return {row[1]: _record(row) for row in rows}

    def wait(self, task_ids: Sequence[str], *, timeout_seconds: float) -> dict[str, TaskRecord]:
        wanted = _ids(task_ids)

        def any_ended() -> bool:
            with self._namespace.database.reading() as connection:
                given = (self._namespace.ns, wanted, self._horizon())
                return connection.execute(SQL["record_ended"], given).fetchone() is not None

        if not self._namespace.sleep_until(any_ended, timeout_seconds, {"done"}):
            return {}
        return {id: record for id, record in self.get(task_ids).items() if record.is_terminal}

    def page(self, where: TaskFilter, *, limit: int, cursor: str | None = None) -> Page[TaskRecord]:
        if limit <= 0:
            return Page([], None)
        namespace = self._namespace
        parameters = {
            "first": namespace.first,
            "last": namespace.last if cursor is None else namespace.first + int(cursor) - 1,
            "state": None if where.state is None else where.state.value,
            "queue": where.queue,
            "name": where.name,
            "since": None if where.since is None else where.since.timestamp(),
            "until": None if where.until is None else where.until.timestamp(),
            "horizon": self._horizon(),
            "meta": None if where.meta is None else msgspec.json.encode(where.meta).decode(),
            "meta_text": None if where.meta_text is None else where.meta_text.encode(),  # a blob, as the column is
            "limit": limit + 1,
        }
        with namespace.database.reading() as connection:
            rows = connection.execute(SQL["record_page"], parameters).fetchall()
        more = len(rows) > limit
        return Page([_record(row) for row in rows[:limit]], str(rows[limit - 1][0] - namespace.first) if more else None)

    def save(self, records: Sequence[TaskRecord]) -> None:
        if not records:
            return
        namespace = self._namespace
        with namespace.database.writing() as connection:
            fresh = namespace.first + namespace.take_numbers(connection, "seq", len(records))
            for offset, record in enumerate(records):
                # One by one: a record may stand twice in the batch.
                rows = connection.execute(SQL["record_get"], (namespace.ns, _ids([record.id]), 0.0)).fetchall()
                if not rows or _order(record) >= _order(_record(rows[0])):
                    seq = rows[0][0] if rows else fresh + offset
                    connection.execute(SQL["record_save"], _saved_row(seq, namespace.ns, record))
        namespace.ring({"done"})

    def _horizon(self) -> float:
        """Records that ended up to here are outlived."""
        return self._namespace.now() - self._namespace.retention.results_seconds


def _ids(task_ids: Sequence[str]) -> str:
    return msgspec.json.encode(list(task_ids)).decode()


def _order(record: TaskRecord) -> tuple[int, int, int]:
    return (record.fence, record.attempt, record.stage)


def _record(row: tuple[Any, ...]) -> TaskRecord:
    (_, id, name, queue, state, attempt, fence, priority, payload, error, meta, worker,
     enqueued_at, started_at, finished_at, heartbeat_at, updated_at) = row  # fmt: skip
    return TaskRecord(
        id=id,
        name=name,
        queue=queue,
        state=_STATES[state],
        attempt=attempt,
        fence=fence,
        priority=priority,
        payload=None if payload is None else msgspec.Raw(payload),
        error=None if error is None else msgspec.json.decode(error, type=TaskError),
        meta=noted(from_json(meta), moment_or_none(heartbeat_at)),
        worker=worker,
        enqueued_at=moment(enqueued_at),
        started_at=moment_or_none(started_at),
        finished_at=moment_or_none(finished_at),
        heartbeat_at=moment_or_none(heartbeat_at),
        updated_at=moment(updated_at),
    )


def _saved_row(seq: int, ns: int, record: TaskRecord) -> tuple[Any, ...]:
    finished_at = record.finished_at.timestamp() if record.finished_at else None
    return (
        seq, ns, record.id, record.name, record.queue, record.priority, record.state.value, record.attempt, record.fence,
        record.enqueued_at.timestamp(), record.updated_at.timestamp(),
        record.started_at.timestamp() if record.started_at else None, finished_at,
        record.heartbeat_at.timestamp() if record.heartbeat_at else None,
        (finished_at or 0.0) if record.is_terminal else None,
        record.worker, None if record.error is None else msgspec.json.encode(record.error),
        json_or_none(record.meta), None if record.payload is None else bytes(record.payload),
    )  # fmt: skip
