"""What travels to and from the scripts, and how it becomes the core's values. `docs/redis-keys.md` names the fields.

Moments and durations are whole microseconds. What users wrote (meta, payloads, errors, event data) stays JSON text: Lua
must never read it, for its numbers are doubles and its empty tables ambiguous. It travels as text, never as bytes, which
the server's msgpack does not know.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

import msgspec

from stem.backends.redis.space import microseconds, pack
from stem.core import envelope as envelopes
from stem.core.delivery import DeadLetter, Delivery, Ending, Fallen, Lease
from stem.core.envelope import Push
from stem.core.event import Event, event_data, event_kinds
from stem.core.lifecycle import EventKind, State
from stem.core.outcome import Cancelled, Dead, Done, Requeue, Retry
from stem.core.record import TaskError, TaskRecord, moment, noted, with_replays
from stem.core.revoke import RevokeRecord

FORMAT = 1  # of a packed task
RAN = "ran"  # a row of the log that is two events
_HEAD, _STATE, _ASIDE, _ID = 14, 3, 6, 17  # bytes before the state; places of fields. As in tasks.lua
SMALL = 1024  # bytes; so long a body lies in its task, a longer one beside it, so that changes need not copy it

Pushed = tuple[Any, ...]  # as push.lua takes it
Successes = tuple[list[str], list[int], list[int | bool], list[str]]  # as succeed.lua takes them: by column


class Letter(msgspec.Struct, frozen=True, array_like=True):
    seq: int
    reason: str
    meta: str


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """A task as the server keeps it; False stands for none. One that has ended lacks the last fields."""

    format: int
    fence: int
    held: bool
    state: State
    expires: int | bool
    visible: int | bool
    aside: bool
    attempt: int
    enqueued: int
    updated: int
    worker: str | bool
    started: int | bool
    finished: int | bool
    beat: int | bool
    payload: str | bool
    error: str | bool
    seq: int
    id: str
    name: str
    queue: str
    priority: int
    meta: dict[str, str] | bool
    unique: str | bool = False
    body: str | bool = False
    due: int | bool = False
    deaths: int = 0
    letter: Letter | bool = False


class Told(msgspec.Struct, frozen=True, array_like=True):
    """A chunk of events, a field each column: one value that all rows share, or a list. False stands for none.

    A row is an event, or two if its kind is `RAN`: `started`, then `succeeded`.
    """

    kind: str | list[str]
    at: int | list[int]
    id: list[str]
    name: str | list[str]
    queue: str | list[str]
    attempt: int | list[int]
    worker: str | bool | list[str | bool]
    enqueued: int | list[int]
    started: int | bool | list[int | bool]
    data: str | bool | list[str | bool]


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
    seal: str = ""


def pushed(push: Push) -> Pushed:
    """Written out at length, for nothing runs more often."""
    envelope, unique = push.envelope, push.unique
    body = envelopes.encode(envelope)
    is_plain = (
        unique is None
        and push.delay_seconds is None
        and push.expires_seconds is None
        and envelope.not_before is None
        and envelope.expires_at is None
        and not envelope.visibility_timeout
        and len(body) <= SMALL
    )
    return (
        False if is_plain else _options(push, body),
        envelope.id,
        envelope.name,
        envelope.queue,
        envelope.priority,
        _texts(envelope.meta) if envelope.meta else False,
        unique.key if unique is not None and unique.seconds is None else False,
        body.decode() if len(body) <= SMALL else False,
    )


def middle(row: Pushed) -> bytes:
    """What is stored of a push as it is: its fields one after the other, without the head of a list."""
    return pack(row[1:])[1:]


def ended(ending: Ending) -> tuple[Any, ...]:
    """As settle.lua takes it."""
    settlement, run, lease = ending.settlement, ending.run_seconds, ending.lease
    payload = bytes(settlement.payload).decode() if isinstance(settlement, Done) else False
    shared = (
        lease.id,
        lease.fence,
        event_kinds(settlement)[0],
        False if run is None else microseconds(run),
        _texts(ending.meta),
        len(ending.follow_ups),
        payload,
        json(ending.facts) if ending.facts else False,
    )
    return shared if isinstance(settlement, Done) else shared + _unsuccessful(settlement, ending.facts)


def fallen(call: Fallen) -> tuple[Any, ...]:
    """As bury.lua takes it."""
    error, data, _, _, reason, letter = _unsuccessful(call.settlement)
    run = False if call.run_seconds is None else microseconds(call.run_seconds)
    return (*pushed(Push(call.envelope)), call.attempt, run, error, data, reason, letter)


def successes(endings: Sequence[Ending]) -> Successes | None:
    """None if one of the endings needs settle.lua."""
    columns: Successes = [], [], [], []
    ids, fences, runs, payloads = columns
    for ending in endings:
        settlement, run, lease = ending.settlement, ending.run_seconds, ending.lease
        if not isinstance(settlement, Done) or ending.meta or ending.follow_ups or ending.facts:
            return None
        ids.append(lease.id)
        fences.append(lease.fence)
        runs.append(False if run is None else microseconds(run))
        payloads.append(bytes(settlement.payload).decode())
    return columns if len(set(ids)) == len(ids) else None


def stored(record: TaskRecord) -> Stored:
    return Stored(
        format=FORMAT,
        fence=record.fence,
        held=False,
        state=record.state,
        expires=False,
        visible=False,
        aside=False,
        attempt=record.attempt,
        enqueued=at(record.enqueued_at),
        updated=at(record.updated_at),
        worker=False if record.worker is None else record.worker,
        started=_at_or_false(record.started_at),
        finished=_at_or_false(record.finished_at),
        beat=_at_or_false(record.heartbeat_at),
        payload=False if record.payload is None else bytes(record.payload).decode(),
        error=False if record.error is None else json(record.error),
        seq=0,
        id=record.id,
        name=record.name,
        queue=record.queue,
        priority=record.priority,
        meta=_texts(record.meta),
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
        meta=noted(_meta(task), _when_or_none(task.beat)),
        worker=task.worker if isinstance(task.worker, str) else None,
        enqueued_at=when(task.enqueued),
        started_at=_when_or_none(task.started),
        finished_at=_when_or_none(task.finished),
        heartbeat_at=_when_or_none(task.beat),
        updated_at=when(task.updated),
    )


def delivery(packed: bytes, bodies: Iterator[bytes]) -> Delivery:
    """Of a claimed task; `bodies` has those that lie beside theirs."""
    task = decode_task(packed)
    body = next(bodies, b"") if task.aside else str(task.body or "").encode()
    return Delivery(Lease(task.id, task.fence), task.name, task.queue, task.attempt, task.deaths, body)


def mended(packed: bytes, bodies: Iterator[bytes]) -> tuple[Delivery, bytes] | None:
    """Of a claimed task whose fields are not what they must be, because somebody has written it by hand: one that the worker
    parks as unreadable, and how it is to be stored so that its dead letter can be read. None: it cannot even be named."""
    try:
        found = msgspec.msgpack.decode(packed)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    fields = msgspec.structs.fields(Stored)
    if not isinstance(found, list) or len(found) != len(fields) or not isinstance(found[_ID], str):
        return None
    if found[_ASIDE] is not False and found[_ASIDE] is not None:
        next(bodies, b"")
    values = [_or_none(value, field.type) for value, field in zip(found, fields, strict=True)]
    task = Stored(*values)
    rest = b"".join(msgspec.msgpack.encode(value) for value in values[_STATE:])
    return Delivery(Lease(task.id, task.fence), task.name, task.queue, task.attempt, task.deaths, b""), packed[
        :_HEAD
    ] + rest


def _or_none(value: Any, type: Any) -> Any:
    """The value, or what says nothing if it is of another type."""
    try:
        return msgspec.convert(value, type)
    except msgspec.MsgspecError:
        return State.QUEUED if type is State else "" if type is str else 0 if type is int else False


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
        with_replays(msgspec.json.decode(found.meta), _meta(task)),
        when(task.finished),
        body,
        task.worker if isinstance(task.worker, str) else None,
    )


def _meta(task: Stored) -> dict[str, Any]:
    return {key: msgspec.json.decode(text) for key, text in task.meta.items()} if isinstance(task.meta, dict) else {}


def events(last: int, packed: bytes, after: int, limit: int) -> list[Event]:
    """Those of the chunk that ends at offset `last` which come after that one, at most so many."""
    told = _decode_told(packed)
    columns = [each if isinstance(each, list) else [each] * len(told.id) for each in msgspec.structs.astuple(told)]
    rows = [row for kind, *fields in zip(*columns, strict=True) for row in _rows(kind, *fields)]
    first = last - len(rows) + 1
    start = max(0, after + 1 - first)
    return [_event(first + start + i, *row) for i, row in enumerate(rows[start : start + limit])]


def revoke(packed: bytes) -> RevokeRecord:
    mark = _decode_mark(packed)
    return RevokeRecord(
        task_id=mark.task,
        version=mark.version,
        reason=mark.reason,
        requester=mark.requester,
        terminate=mark.terminate,
        signal=mark.signal,
        created_at=when(mark.created),
        expires_at=None if mark.expires is None else when(mark.expires),
        seal=mark.seal,
    )


def at(value: datetime) -> int:
    return microseconds(value.timestamp())


def when(value: int) -> datetime:
    return moment(value / 1_000_000)


def json(value: Any) -> str:
    return _encoder.encode(value).decode()


def _options(push: Push, body: bytes) -> tuple[Any, ...]:
    envelope, delay, lifetime, unique = push.envelope, push.delay_seconds, push.expires_seconds, push.unique
    return (
        False if delay is None else microseconds(delay),
        _at_or_false(envelope.not_before),
        False if lifetime is None else microseconds(lifetime),
        _at_or_false(envelope.expires_at),
        microseconds(envelope.visibility_timeout) if envelope.visibility_timeout else False,
        False if unique is None else unique.key,
        False if unique is None or unique.seconds is None else microseconds(unique.seconds),
        body.decode() if len(body) > SMALL else False,
    )


def _unsuccessful(
    settlement: Retry | Dead | Requeue | Cancelled, facts: dict[str, Any] | None = None
) -> tuple[Any, ...]:
    """Error, data, delay, whether the worker died, reason and meta of the dead letter."""
    data = json(event_data(settlement, facts))
    match settlement:
        case Retry(seconds, error):
            return json(error), data, microseconds(seconds), False, "", False
        case Dead(reason, error, meta):
            return json(error), data, 0, False, reason, json(meta)
        case Requeue(seconds, died=died):
            return False, data, microseconds(seconds), died, "", False
        case Cancelled(reason):
            return json(TaskError("Cancelled", reason)), data, 0, False, "", False


def _rows(kind: str, at: int, *fields: Any) -> list[tuple[Any, ...]]:
    """A row of the log, one an event."""
    if kind != RAN:
        return [(EventKind(kind), at, *fields)]
    *_, started, _ = fields
    return [(EventKind.STARTED, started, *fields), (EventKind.SUCCEEDED, at, *fields)]


def _event(
    offset: int,
    kind: EventKind,
    at: int,
    id: str,
    name: str,
    queue: str,
    attempt: int,
    worker: str | bool,
    enqueued: int,
    started: int | bool,
    data: str | bool,
) -> Event:
    return Event(
        offset=str(offset),
        kind=kind,
        at=when(at),
        task_id=id,
        name=name,
        queue=queue,
        attempt=attempt,
        worker=worker if isinstance(worker, str) else None,
        enqueued_at=when(enqueued),
        started_at=_when_or_none(started),
        data=msgspec.json.decode(data) if isinstance(data, str) else {},
    )


def _at_or_false(value: datetime | None) -> int | bool:
    return False if value is None else at(value)


def _when_or_none(value: int | bool) -> datetime | None:
    return None if value is False else when(value)


def _error(task: Stored) -> TaskError | None:
    return _error_decoder.decode(task.error) if isinstance(task.error, str) else None


def _texts(meta: dict[str, Any]) -> dict[str, str] | bool:
    """False for none: Lua could not tell an empty object from an empty list."""
    return {key: json(value) for key, value in meta.items()} if meta else False


kind = itemgetter(0, 2, 3, 4)  # of a push: its options, name, queue and priority
_encoder = msgspec.json.Encoder()
_error_decoder = msgspec.json.Decoder(TaskError)
decode_task = msgspec.msgpack.Decoder(Stored).decode
_decode_told = msgspec.msgpack.Decoder(Told).decode
_decode_mark = msgspec.msgpack.Decoder(Marked).decode
