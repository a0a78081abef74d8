"""Read history in bulk from Redis: the log's chunks as the stream holds them, tasks by the index of their arrival.

Filters are applied here, not in scripts, because the server has one thread and fleets wait for it.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import Any

import msgspec

from stem.backends.redis.codec import event_chunk, stored_task, values
from stem.backends.redis.codec.stored_task import StoredTask
from stem.backends.redis.namespace import RedisNamespace
from stem.contracts.history import (
    COLUMNS,
    Column,
    HistoryFilter,
    NumberedHistory,
    Relation,
    Slice,
    check_columns,
    matches,
)

_CHUNKS = 40  # of the log, read in one call
_TASKS = 2000  # read in one call


class RedisHistory(NumberedHistory):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace

    def chunks(self, piece: Slice, columns: Sequence[str]) -> Iterator[list[Column]]:
        check_columns(piece.relation, columns)
        return self._events(piece, columns) if piece.relation == "events" else self._tasks(piece, columns)

    def _ends(self, relation: Relation) -> tuple[int, int]:
        return self._log_ends() if relation == "events" else self._index_ends()

    def _log_ends(self) -> tuple[int, int]:
        """The newest offset given, and the newest one dropped."""
        newest, dropped = self._namespace.client.call("HMGET", self._namespace.key("numbers"), "offset", "floor")
        return int(newest or 0), int(dropped or 0)

    def _index_ends(self) -> tuple[int, int]:
        """The last place in the index, and the one before the first."""
        call, index = self._namespace.client.call, self._namespace.key("index")
        first = call("ZRANGE", index, 0, 0, "WITHSCORES")
        last = call("ZREVRANGE", index, 0, 0, "WITHSCORES")
        return (int(last[1]), int(first[1]) - 1) if first and last else (0, 0)

    def _events(self, piece: Slice, columns: Sequence[str]) -> Iterator[list[Column]]:
        after, upto = int(piece.after), int(piece.upto)
        while after < upto:
            entries = self._namespace.client.call(
                "XRANGE", self._namespace.key("events"), f"{after + 1}-0", "+", "COUNT", _CHUNKS
            )
            rows: list[tuple[Any, ...]] = []
            for id, (_, packed) in entries:
                last = int(id.partition(b"-")[0])
                found = _lines(packed)
                first = last - len(found) + 1
                rows += [
                    (first + i, *found[i]) for i in range(max(0, after + 1 - first), min(len(found), upto + 1 - first))
                ]
                after = last
            if rows:
                yield _event_columns(rows, piece.where, columns)
            if len(entries) < _CHUNKS:
                break

    def _tasks(self, piece: Slice, columns: Sequence[str]) -> Iterator[list[Column]]:
        after, upto = int(piece.after), int(piece.upto)
        call, key = self._namespace.client.call, self._namespace.key
        while after < upto:
            found = call("ZRANGEBYSCORE", key("index"), f"({after}", upto, "WITHSCORES", "LIMIT", 0, _TASKS)
            if not found:
                break
            packed = call("MGET", *(key("t:") + id.decode() for id in found[::2]))
            tasks = [stored_task.decode_task(each) for each in packed if each is not None]  # else swept since
            yield _task_columns(tasks, piece.where, columns)
            after = int(found[-1])


def _lines(packed: bytes) -> list[tuple[Any, ...]]:
    """The events of a chunk, without their offsets."""
    told = _decode_chunk(packed)
    columns = [each if isinstance(each, list) else [each] * len(told.id) for each in msgspec.structs.astuple(told)]
    rows = list(zip(*columns, strict=True))
    if event_chunk.RAN not in columns[0]:
        return rows
    return [line for row in rows for line in _told_once(row)]


def _told_once(row: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Split a stored row into one row per event: a run that was logged at once has two."""
    kind, _, *fields = row
    if kind != event_chunk.RAN:
        return [row]
    started = fields[_STARTED]
    return [("started", started, *fields), ("succeeded", row[1], *fields)]


def _event_columns(rows: Sequence[tuple[Any, ...]], where: HistoryFilter, columns: Sequence[str]) -> list[Column]:
    stored: dict[str, Any] = dict(zip(COLUMNS["events"], zip(*rows, strict=True), strict=True))

    def column(name: str) -> Column:
        match name:
            case "offset":
                return list(map(str, stored[name]))
            case "worker" | "started_at":
                return _without_false(stored[name])
            case "data":
                return [data or "{}" for data in stored[name]]
            case _:
                return tuple(stored[name])

    return _chosen("events", where, columns, column)


def _task_columns(tasks: Sequence[StoredTask], where: HistoryFilter, columns: Sequence[str]) -> list[Column]:
    def column(name: str) -> Column:
        match name:
            case "state":
                return [task.state.value for task in tasks]
            case "meta":
                return [_meta(task.meta) for task in tasks]
            case _:
                field = _FIELDS.get(name, name)
                return _without_false([getattr(task, field) for task in tasks])

    return _chosen("tasks", where, columns, column)


def _chosen(
    relation: Relation, where: HistoryFilter, columns: Sequence[str], column: Callable[[str], Column]
) -> list[Column]:
    passed = matches(relation, where, column)
    return [column(name) if passed is None else list(compress(column(name), passed)) for name in columns]


def _without_false(values: Column) -> Column:
    return [None if value is False else value for value in values]


def _meta(meta: dict[str, str] | bool) -> str:
    if not isinstance(meta, dict):
        return "{}"
    return "{" + ",".join(f"{values.json(key)}:{text}" for key, text in meta.items()) + "}"


_STARTED = 6  # among the fields of a row after its kind and moment
_decode_chunk = msgspec.msgpack.Decoder(event_chunk.EventChunk).decode

# Where a task's field has another name than the column.
_FIELDS = {
    "enqueued_at": "enqueued",
    "started_at": "started",
    "finished_at": "finished",
    "heartbeat_at": "beat",
    "updated_at": "updated",
}
