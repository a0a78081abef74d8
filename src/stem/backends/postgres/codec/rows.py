"""Turn rows of the database into the values of the contracts."""

from typing import Any

import msgspec

from stem.backends.postgres.connection.deadline_connection import Row
from stem.core.delivery import DeadLetter
from stem.core.event import Event
from stem.core.lifecycle import EventKind, State
from stem.core.record import TaskError, TaskRecord, moment, moment_or_none, noted, with_replays

_error = msgspec.json.Decoder(TaskError)


def task_record(row: Row) -> TaskRecord:
    (id, name, queue, state, attempt, fence, priority, payload, error, meta, progress, worker,
     enqueued_at, started_at, finished_at, heartbeat_at, updated_at, _seq) = row  # fmt: skip
    return TaskRecord(
        id=id,
        name=name,
        queue=queue,
        state=State(state),
        attempt=attempt,
        fence=fence,
        priority=priority,
        payload=None if payload is None else msgspec.Raw(payload.encode()),
        error=None if error is None else _error.decode(error),
        meta=noted(merged_meta(meta, progress), moment_or_none(heartbeat_at)),
        worker=worker,
        enqueued_at=moment(enqueued_at),
        started_at=moment_or_none(started_at),
        finished_at=moment_or_none(finished_at),
        heartbeat_at=moment_or_none(heartbeat_at),
        updated_at=moment(updated_at),
    )


def merged_meta(lines: str, progress: str | None) -> dict[str, Any]:
    """A line an object, later ones over earlier ones; progress, if there is any, over all."""
    meta: dict[str, Any] = {}
    for line in lines.split("\n"):
        meta.update(msgspec.json.decode(line))
    if progress is not None:
        meta["progress"] = msgspec.json.decode(progress)
    return meta


def dead_letter(row: Row) -> DeadLetter:
    id, name, queue, attempt, reason, error, meta, dead_at, body, worker, record_meta, _seq = row
    return DeadLetter(
        id=id,
        name=name,
        queue=queue,
        attempt=attempt,
        reason=reason,
        error=_error.decode(error),
        meta=with_replays(msgspec.json.decode(meta), merged_meta(record_meta or "{}", None)),
        dead_at=moment(dead_at),
        body=body.encode(),
        worker=worker,
    )


def event(row: Row) -> Event:
    offset, kind, at, task_id, name, queue, attempt, worker, enqueued_at, started_at, data = row
    return Event(
        offset=offset,
        kind=EventKind(kind),
        at=moment(at),
        task_id=task_id,
        name=name,
        queue=queue,
        attempt=attempt,
        worker=worker,
        enqueued_at=moment(enqueued_at),
        started_at=moment_or_none(started_at),
        data={} if data is None else msgspec.json.decode(data),
    )
