"""Keep task records in Postgres."""

from collections.abc import Sequence
from math import inf

from stem.backends.postgres.codec.paging import cursor_start
from stem.backends.postgres.codec.rows import task_record
from stem.backends.postgres.codec.text_columns import column, json_text, numbers, seconds, texts, utf8
from stem.backends.postgres.namespace import PostgresNamespace
from stem.backends.postgres.notify.notifier import Notification, id_hash, notification
from stem.contracts.results import Results
from stem.core.record import Page, TaskFilter, TaskRecord


class PostgresResults(Results):
    def __init__(self, namespace: PostgresNamespace) -> None:
        self._namespace = namespace
        self._ttl = namespace.retention.results_seconds

    def get(self, task_ids: Sequence[str], *, past_retention: bool = False) -> dict[str, TaskRecord]:
        ttl = inf if past_retention else self._ttl
        found = (
            {row[0]: row for row in self._namespace.query("records_get", ids=list(task_ids), ttl=ttl)}
            if task_ids
            else {}
        )
        return {id: task_record(found[id]) for id in task_ids if id in found}

    def wait(self, task_ids: Sequence[str], *, timeout_seconds: float) -> dict[str, TaskRecord]:
        asked = list(task_ids)
        hashes = {id_hash(task_id) for task_id in asked}

        def look(left: float) -> dict[str, TaskRecord]:
            rows = self._namespace.query("records_ended", ids=asked, ttl=self._ttl, timeout_seconds=left)
            return {row[0]: task_record(row) for row in rows}

        def concerns(change: Notification) -> bool:
            return not change.ended.isdisjoint(hashes)

        found = self._namespace.listeners.ended.wait_until(concerns, look, timeout_seconds) or {}
        return {id: found[id] for id in asked if id in found}

    def page(self, where: TaskFilter, *, limit: int, cursor: str | None = None) -> Page[TaskRecord]:
        if limit <= 0:
            return Page([], None)
        rows = self._namespace.query(
            "records_page",
            below=cursor_start(cursor),
            state=where.state,
            queue=where.queue,
            name=where.name,
            since=seconds(where.since),
            until=seconds(where.until),
            meta=None if where.meta is None else json_text(where.meta),
            meta_text=where.meta_text,
            ttl=self._ttl,
            limit=limit + 1,
        )
        more = len(rows) > limit
        return Page([task_record(row) for row in rows[:limit]], str(rows[limit - 1][-1]) if more else None)

    def save(self, records: Sequence[TaskRecord]) -> None:
        if not records:
            return
        kept: dict[str, TaskRecord] = {}
        for record in records:
            if record.id not in kept or _order(record) >= _order(kept[record.id]):
                kept[record.id] = record
        batch = sorted(kept.values(), key=lambda record: record.id)  # all batches lock rows in one order
        self._namespace.call("save_records", *_columns(batch))
        self._namespace.notify(notification(ended=[record.id for record in batch if record.is_terminal], logged=False))


def _order(record: TaskRecord) -> tuple[int, int, int]:
    return (record.fence, record.attempt, record.stage)


def _columns(batch: list[TaskRecord]) -> list[str]:
    return [
        column([r.id for r in batch]),
        numbers([r.fence for r in batch]),
        numbers([seconds(r.enqueued_at) for r in batch]),
        numbers([seconds(r.updated_at) for r in batch]),
        numbers([seconds(r.started_at) for r in batch]),
        numbers([seconds(r.finished_at) for r in batch]),
        numbers([seconds(r.heartbeat_at) for r in batch]),
        numbers([r.attempt for r in batch]),
        numbers([r.priority for r in batch]),
        column([r.state for r in batch]),
        column([r.queue for r in batch]),
        column([r.name for r in batch]),
        texts([r.worker for r in batch]),
        column([None if r.payload is None else utf8(r.payload) for r in batch]),
        column([None if r.error is None else json_text(r.error) for r in batch]),
        column([json_text(r.meta) for r in batch]),
    ]
