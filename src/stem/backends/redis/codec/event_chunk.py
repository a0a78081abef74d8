"""Read the chunks of the event log. `docs/redis-keys.md` names the columns."""

from typing import Any

import msgspec

from stem.backends.redis.codec.values import when, when_or_none
from stem.core.event import Event
from stem.core.lifecycle import EventKind

RAN = "ran"  # a row of the log that is two events


class EventChunk(msgspec.Struct, frozen=True, array_like=True):
    """A chunk of events by column: one value that all rows share, or a list. False means none.

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


def events(last: int, packed: bytes, after: int, limit: int) -> list[Event]:
    """Read the events after an offset from the chunk that ends at offset `last`, up to a limit."""
    chunk = _decode_chunk(packed)
    columns = [each if isinstance(each, list) else [each] * len(chunk.id) for each in msgspec.structs.astuple(chunk)]
    rows = [row for kind, *fields in zip(*columns, strict=True) for row in _rows(kind, *fields)]
    first = last - len(rows) + 1
    start = max(0, after + 1 - first)
    return [_event(first + start + i, *row) for i, row in enumerate(rows[start : start + limit])]


def _rows(kind: str, at: int, *fields: Any) -> list[tuple[Any, ...]]:
    """Split a stored row into one row per event: a run that was logged at once has two."""
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
        started_at=when_or_none(started),
        data=msgspec.json.decode(data) if isinstance(data, str) else {},
    )


_decode_chunk = msgspec.msgpack.Decoder(EventChunk).decode
