"""What travels to and from the scripts, and how it becomes the core's values. `docs/redis-keys.md` names the fields.

Moments and durations are whole microseconds. What users wrote (meta, payloads, errors, event data) stays JSON text: Lua
must never read it, for its numbers are doubles and its empty tables ambiguous. It travels as text, never as bytes, which
the server's msgpack does not know.
"""

from datetime import datetime
from typing import Any

import msgspec

from stem.backends.redis.space import microseconds
from stem.core import envelope as envelopes
from stem.core.delivery import DeadLetter, Ending
from stem.core.envelope import Push
from stem.core.event import Event, event_data, event_kinds
from stem.core.lifecycle import EventKind, State
from stem.core.outcome import Cancelled, Dead, Done, Requeue, Retry
from stem.core.record import TaskError, TaskRecord, moment
from stem.core.revoke import RevokeRecord


class Letter(msgspec.Struct, frozen=True):
    seq: int
    reason: str
    meta: str


class Stored(msgspec.Struct, omit_defaults=True):
    """A task's record as the server keeps it; the fields that only scripts need are left out."""

    name: str
    queue: str
    prio: int
    state: State
    enqueued: int
    updated: int
    id: str = ""
    seq: int = 0
    attempt: int = 0
    fence: int = 0
    payload: str | None = None
    error: str | None = None
    meta: dict[str, str] | None = None
    worker: str | None = None
    started: int | None = None
    finished: int | None = None
    beat: int | None = None
    letter: Letter | None = None


class Pushed(msgspec.Struct, omit_defaults=True):
    id: str
    name: str
    queue: str
    prio: int
    body: str
    meta: dict[str, str] | None = None
    visible: int | None = None
    delay: int | None = None
    due: int | None = None
    lifetime: int | None = None
    expires: int | None = None
    unique: str | None = None
    hold: int | None = None


class Ended(msgspec.Struct, omit_defaults=True):
    id: str
    fence: int
    kind: EventKind
    run: int | None = None
    meta: dict[str, str] | None = None
    payload: str | None = None
    error: str | None = None
    data: str | None = None
    delay: int | None = None
    died: bool = False
    reason: str = ""
    letter: str | None = None
    pushes: list[Pushed] | None = None


class Told(msgspec.Struct, frozen=True, array_like=True):
    """One event of a chunk; False stands for none."""

    kind: EventKind
    at: int
    id: str
    name: str
    queue: str
    attempt: int
    worker: str | bool
    enqueued: int
    started: int | bool
    data: str | bool


class Marked(msgspec.Struct, frozen=True, omit_defaults=True):
    """A revoke."""

    task: str
    reason: str
    requester: str
    terminate: bool
    signal: str | None = None
    lifetime: int | None = None
    version: int = 0
    created: int = 0
    expires: int | None = None


def pushed(push: Push) -> Pushed:
    envelope = push.envelope
    shape = Pushed(envelope.id, envelope.name, envelope.queue, envelope.priority, envelopes.encode(envelope).decode())
    if envelope.meta:
        shape.meta = _texts(envelope.meta)
    if envelope.visibility_timeout:
        shape.visible = microseconds(envelope.visibility_timeout)
    if push.delay_seconds is not None:
        shape.delay = microseconds(push.delay_seconds)
    elif envelope.not_before is not None:
        shape.due = at(envelope.not_before)
    if push.expires_seconds is not None:
        shape.lifetime = microseconds(push.expires_seconds)
    elif envelope.expires_at is not None:
        shape.expires = at(envelope.expires_at)
    if push.unique is not None:
        shape.unique = push.unique.key
        shape.hold = None if push.unique.seconds is None else microseconds(push.unique.seconds)
    return shape


def ended(ending: Ending) -> Ended:
    settlement = ending.settlement
    shape = Ended(ending.lease.id, ending.lease.fence, event_kinds(settlement)[0])
    if ending.run_seconds is not None:
        shape.run = microseconds(ending.run_seconds)
    if ending.meta:
        shape.meta = _texts(ending.meta)
    if ending.follow_ups:
        shape.pushes = [pushed(push) for push in ending.follow_ups]
    match settlement:
        case Done(payload):
            shape.payload = bytes(payload).decode()
            return shape
        case Retry(seconds, error):
            shape.delay, shape.error = microseconds(seconds), json(error)
        case Dead(reason, error, meta):
            shape.reason, shape.error, shape.letter = reason, json(error), json(meta)
        case Requeue(seconds, died=died):
            shape.delay, shape.died = microseconds(seconds), died
        case Cancelled(reason):
            shape.error = json(TaskError("Cancelled", reason))
    shape.data = json(event_data(settlement))
    return shape


def stored(record: TaskRecord) -> Stored:
    return Stored(
        name=record.name,
        queue=record.queue,
        prio=record.priority,
        state=record.state,
        enqueued=at(record.enqueued_at),
        updated=at(record.updated_at),
        id=record.id,
        attempt=record.attempt,
        fence=record.fence,
        payload=None if record.payload is None else bytes(record.payload).decode(),
        error=None if record.error is None else json(record.error),
        meta=_texts(record.meta) if record.meta else None,
        worker=record.worker,
        started=_at_or_none(record.started_at),
        finished=_at_or_none(record.finished_at),
        beat=_at_or_none(record.heartbeat_at),
    )


def record(task_id: str, task: Stored) -> TaskRecord:
    return TaskRecord(
        id=task_id,
        name=task.name,
        queue=task.queue,
        state=task.state,
        attempt=task.attempt,
        fence=task.fence,
        priority=task.prio,
        payload=None if task.payload is None else msgspec.Raw(task.payload),
        error=_error(task),
        meta={key: msgspec.json.decode(text) for key, text in task.meta.items()} if task.meta else {},
        worker=task.worker,
        enqueued_at=when(task.enqueued),
        started_at=None if task.started is None else when(task.started),
        finished_at=None if task.finished is None else when(task.finished),
        heartbeat_at=None if task.beat is None else when(task.beat),
        updated_at=when(task.updated),
    )


def letter(task_id: str, task: Stored, body: bytes) -> DeadLetter:
    found = task.letter or Letter(0, "", "{}")
    return DeadLetter(
        task_id,
        task.name,
        task.queue,
        task.attempt,
        found.reason,
        _error(task),
        msgspec.json.decode(found.meta),
        when(task.finished or 0),
        body,
    )


def event(offset: int, told: Told) -> Event:
    return Event(
        offset=str(offset),
        kind=told.kind,
        at=when(told.at),
        task_id=told.id,
        name=told.name,
        queue=told.queue,
        attempt=told.attempt,
        worker=told.worker if isinstance(told.worker, str) else None,
        enqueued_at=when(told.enqueued),
        started_at=None if told.started is False else when(told.started),
        data=msgspec.json.decode(told.data) if isinstance(told.data, str) else {},
    )


def revoke(mark: Marked) -> RevokeRecord:
    return RevokeRecord(
        task_id=mark.task,
        version=mark.version,
        reason=mark.reason,
        requester=mark.requester,
        terminate=mark.terminate,
        signal=mark.signal,
        created_at=when(mark.created),
        expires_at=None if mark.expires is None else when(mark.expires),
    )


def at(value: datetime) -> int:
    return microseconds(value.timestamp())


def when(value: int) -> datetime:
    return moment(value / 1_000_000)


def json(value: Any) -> str:
    return _encoder.encode(value).decode()


def _at_or_none(value: datetime | None) -> int | None:
    return None if value is None else at(value)


def _error(task: Stored) -> TaskError | None:
    return None if task.error is None else _error_decoder.decode(task.error)


def _texts(meta: dict[str, Any]) -> dict[str, str]:
    return {key: json(value) for key, value in meta.items()}


_encoder = msgspec.json.Encoder()
_error_decoder = msgspec.json.Decoder(TaskError)
decode_task = msgspec.msgpack.Decoder(Stored).decode
decode_events = msgspec.msgpack.Decoder(list[Told]).decode
decode_mark = msgspec.msgpack.Decoder(Marked).decode
