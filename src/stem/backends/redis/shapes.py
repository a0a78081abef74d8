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

FORMAT = 1  # of a packed task


class Letter(msgspec.Struct, frozen=True, array_like=True):
    seq: int
    reason: str
    meta: str


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """A task as the server keeps it; False stands for none. Only scripts use the fields after `beat`, save `letter`."""

    format: int
    id: str
    name: str
    queue: str
    priority: int
    seq: int
    state: State
    attempt: int
    fence: int
    enqueued: int
    updated: int
    payload: str | bool
    error: str | bool
    meta: dict[str, str] | bool
    worker: str | bool
    started: int | bool
    finished: int | bool
    beat: int | bool
    visible: int | bool = False
    due: int | bool = False
    expires: int | bool = False
    deaths: int = 0
    held: bool = False
    unique: str | bool = False
    letter: Letter | bool = False
    body: str | bool = False


class Pushed(msgspec.Struct, frozen=True, array_like=True):
    id: str
    name: str
    queue: str
    priority: int
    body: str
    meta: dict[str, str] | bool
    visible: int | bool
    delay: int | bool
    due: int | bool
    lifetime: int | bool
    expires: int | bool
    unique: str | bool
    hold: int | bool


class Ended(msgspec.Struct, array_like=True):
    id: str
    fence: int
    kind: EventKind
    run: int | bool
    meta: dict[str, str] | bool
    payload: str | bool = False
    error: str | bool = False
    data: str | bool = False
    delay: int = 0
    died: bool = False
    reason: str = ""
    letter: str | bool = False
    follow_ups: int = 0


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
    envelope, delay, lifetime, unique = push.envelope, push.delay_seconds, push.expires_seconds, push.unique
    return Pushed(
        envelope.id,
        envelope.name,
        envelope.queue,
        envelope.priority,
        envelopes.encode(envelope).decode(),
        _texts(envelope.meta),
        microseconds(envelope.visibility_timeout) if envelope.visibility_timeout else False,
        False if delay is None else microseconds(delay),
        False if envelope.not_before is None else at(envelope.not_before),
        False if lifetime is None else microseconds(lifetime),
        False if envelope.expires_at is None else at(envelope.expires_at),
        False if unique is None else unique.key,
        False if unique is None or unique.seconds is None else microseconds(unique.seconds),
    )


def ended(ending: Ending) -> Ended:
    settlement, run = ending.settlement, ending.run_seconds
    shape = Ended(
        ending.lease.id,
        ending.lease.fence,
        event_kinds(settlement)[0],
        False if run is None else microseconds(run),
        _texts(ending.meta),
        follow_ups=len(ending.follow_ups),
    )
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
        FORMAT,
        record.id,
        record.name,
        record.queue,
        record.priority,
        0,
        record.state,
        record.attempt,
        record.fence,
        at(record.enqueued_at),
        at(record.updated_at),
        False if record.payload is None else bytes(record.payload).decode(),
        False if record.error is None else json(record.error),
        _texts(record.meta),
        False if record.worker is None else record.worker,
        _at_or_false(record.started_at),
        _at_or_false(record.finished_at),
        _at_or_false(record.heartbeat_at),
    )


def record(task: Stored) -> TaskRecord:
    return TaskRecord(
        id=task.id,
        name=task.name,
        queue=task.queue,
        state=task.state,
        attempt=task.attempt,
        fence=task.fence,
        priority=task.priority,
        payload=msgspec.Raw(task.payload) if isinstance(task.payload, str) else None,
        error=_error(task),
        meta={key: msgspec.json.decode(text) for key, text in task.meta.items()} if isinstance(task.meta, dict) else {},
        worker=task.worker if isinstance(task.worker, str) else None,
        enqueued_at=when(task.enqueued),
        started_at=_when_or_none(task.started),
        finished_at=_when_or_none(task.finished),
        heartbeat_at=_when_or_none(task.beat),
        updated_at=when(task.updated),
    )


def numbered_letter(packed: bytes, body: bytes) -> tuple[int, DeadLetter]:
    """A dead letter and its place among them."""
    task = decode_task(packed)
    found = task.letter if isinstance(task.letter, Letter) else Letter(0, "", "{}")
    return found.seq, DeadLetter(
        task.id,
        task.name,
        task.queue,
        task.attempt,
        found.reason,
        _error(task),
        msgspec.json.decode(found.meta),
        when(task.finished),
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
        started_at=_when_or_none(told.started),
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


def _at_or_false(value: datetime | None) -> int | bool:
    return False if value is None else at(value)


def _when_or_none(value: int | bool) -> datetime | None:
    return None if value is False else when(value)


def _error(task: Stored) -> TaskError | None:
    return _error_decoder.decode(task.error) if isinstance(task.error, str) else None


def _texts(meta: dict[str, Any]) -> dict[str, str] | bool:
    """False for none: Lua could not tell an empty object from an empty list."""
    return {key: json(value) for key, value in meta.items()} if meta else False


_encoder = msgspec.json.Encoder()
_error_decoder = msgspec.json.Decoder(TaskError)
decode_task = msgspec.msgpack.Decoder(Stored).decode
decode_events = msgspec.msgpack.Decoder(list[Told]).decode
decode_mark = msgspec.msgpack.Decoder(Marked).decode
