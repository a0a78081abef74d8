"""Read and write tasks as the server stores them. `docs/redis-keys.md` names the fields."""

from collections.abc import Iterator
from typing import Any

import msgspec

from stem.backends.redis.codec.values import at, at_or_false, json, texts, when, when_or_none
from stem.core.delivery import TWO_PRIORITIES, DeadLetter, Delivery, Lease
from stem.core.lifecycle import State
from stem.core.record import TaskError, TaskRecord, noted, with_replays

FORMAT = 1  # of a packed task
_HEAD, _STATE, _ASIDE, _ID = 14, 3, 6, 17  # bytes before the state; places of fields. As in tasks.lua
_LAST_RANK = ord("9")  # of priority 0. As in claim.lua
_LINKED_WIDTH = 36  # fields of a task that waits for others, or others for it


class StoredLetter(msgspec.Struct, frozen=True, array_like=True):
    seq: int
    reason: str
    meta: str


class StoredTask(msgspec.Struct, frozen=True, array_like=True):
    """A task as the server stores it. False means none. An ended task lacks the last fields. What a task has beyond them, if it
    waits for others or others wait for it, only scripts read."""

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
    letter: StoredLetter | bool = False


def stored(record: TaskRecord) -> StoredTask:
    return StoredTask(
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
        started=at_or_false(record.started_at),
        finished=at_or_false(record.finished_at),
        beat=at_or_false(record.heartbeat_at),
        payload=False if record.payload is None else bytes(record.payload).decode(),
        error=False if record.error is None else json(record.error),
        seq=0,
        id=record.id,
        name=record.name,
        queue=record.queue,
        priority=record.priority,
        meta=texts(record.meta),
    )


def record(task: StoredTask) -> TaskRecord:
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
        meta=noted(_meta(task), when_or_none(task.beat)),
        worker=task.worker if isinstance(task.worker, str) else None,
        enqueued_at=when(task.enqueued),
        started_at=when_or_none(task.started),
        finished_at=when_or_none(task.finished),
        heartbeat_at=when_or_none(task.beat),
        updated_at=when(task.updated),
    )


def delivery(packed: bytes, bodies: Iterator[bytes], rank: int | None = None) -> Delivery:
    """Decode a claimed task. `bodies` are the envelopes stored under keys of their own; `rank` is the byte that claim.lua
    gives for the place of the task in its queue, None for one that was handed over."""
    task = decode_task(packed)
    body = next(bodies, b"") if task.aside else str(task.body or "").encode()
    priority = task.priority if rank is None or rank == _LAST_RANK - task.priority else TWO_PRIORITIES
    return Delivery(Lease(task.id, task.fence), task.name, task.queue, task.attempt, task.deaths, body, priority)


def repaired(packed: bytes, bodies: Iterator[bytes]) -> tuple[Delivery, bytes] | None:
    """Repair a claimed task that was written by hand and has wrong fields. Returns a delivery, which the worker parks as
    unreadable, and the stored form in which its dead letter can be read. None if the task has no readable id."""
    try:
        found = msgspec.msgpack.decode(packed)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    fields = msgspec.structs.fields(StoredTask)
    if not isinstance(found, list) or len(found) not in (len(fields), _LINKED_WIDTH) or not isinstance(found[_ID], str):
        return None
    if found[_ASIDE] is not False and found[_ASIDE] is not None:
        next(bodies, b"")
    values = [_or_none(value, field.type) for value, field in zip(found, fields, strict=False)]
    task = StoredTask(*values)
    rest = b"".join(msgspec.msgpack.encode(value) for value in [*values[_STATE:], *found[len(fields) :]])
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
    found = task.letter if isinstance(task.letter, StoredLetter) else StoredLetter(0, "", "{}")
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


def _meta(task: StoredTask) -> dict[str, Any]:
    return {key: msgspec.json.decode(text) for key, text in task.meta.items()} if isinstance(task.meta, dict) else {}


def _error(task: StoredTask) -> TaskError | None:
    return _error_decoder.decode(task.error) if isinstance(task.error, str) else None


_error_decoder = msgspec.json.Decoder(TaskError)
decode_task = msgspec.msgpack.Decoder(StoredTask).decode
