"""The event log's rows: some events each, as one JSON text."""

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import msgspec

from stem.backends.sqlite.space import Space
from stem.backends.sqlite.statements import SQL

# Large enough that rows cost nothing, small enough that a reader of a few events does not decode many.
_EVENTS_A_ROW = 200

# kind, at, task id, name, queue, attempt, worker, enqueued at, started at, data
Line = tuple[str, float, str, str, str, int, str | None, float, float | None, dict[str, Any] | None]
Database = sqlite3.Connection | sqlite3.Cursor

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Line]).decode


def append(connection: Database, space: Space, lines: Sequence[Line]) -> None:
    """In the transaction of the change that they tell of. The writers' lock makes offsets follow the commits."""
    offset = space.first + space.take_numbers(connection, "offset", len(lines)) - 1
    chunks = [lines[start : start + _EVENTS_A_ROW] for start in range(0, len(lines), _EVENTS_A_ROW)]
    for chunk in chunks:
        offset += len(chunk)
        connection.execute(SQL["event_insert"], (offset, _encode(chunk)))


def append_enqueued(
    connection: Database,
    space: Space,
    told: Iterable[tuple[str, str, str]],
    now: float,
    count: int,
    queues: set[str],
) -> None:
    """Tell of so many new tasks, by id, name and queue, as `append` would; the queues are added to those given. Ids are
    plain, so that a row of tasks that are alike is put together without a look at each."""
    offset = space.first + space.take_numbers(connection, "offset", count) - 1 if count else 0
    rows = iter(told)
    while chunk := list(islice(rows, _EVENTS_A_ROW)):
        ids, names, queued = zip(*chunk, strict=True)
        queues.update(queued)
        offset += len(chunk)
        if len(set(names)) == len(set(queued)) == 1:
            text = _alike(ids, names[0], queued[0], now)
        else:
            text = _encode([("enqueued", now, *row, 0, None, now, None, None) for row in chunk])
        connection.execute(SQL["event_insert"], (offset, text))


def _alike(ids: Sequence[str], name: str, queue: str, now: float) -> bytes:
    front, back = _encode([("enqueued", now, "\x01", name, queue, 0, None, now, None, None)]).split(b"\\u0001")
    between = back[:-1] + b"," + front[1:]
    return front + between.join([id.encode() for id in ids]) + back


def read(connection: Database, space: Space, after: int, limit: int) -> list[tuple[int, Line]]:
    """Offsets and lines that follow an offset."""
    found: list[tuple[int, Line]] = []
    for seq, text in connection.execute(SQL["event_read"], (space.first + max(after, 0), space.last)):
        lines = _decode(text)
        offset = seq - space.first - len(lines)
        found += [(offset + i, line) for i, line in enumerate(lines, 1) if offset + i > after]
        if len(found) >= limit:
            break
    return found[: max(limit, 0)]


def head(connection: Database, space: Space) -> int | None:
    (seq,) = connection.execute(SQL["event_last"], (space.first, space.last)).fetchone()
    return None if seq is None else int(seq) - space.first


def outlived(connection: Database, space: Space, now: float, events: int) -> list[tuple[int, list[Line], int]]:
    """Of the rows that hold the oldest so many events: number, lines, and how many of these, from the first on, age or
    count has outlived."""
    newest = head(connection, space)
    if newest is None:
        return []
    floor = space.first + newest - space.retention.events_count  # offsets have no gaps
    horizon = now - space.retention.events_seconds
    found: list[tuple[int, list[Line], int]] = []
    looked_at = 0
    for seq, text in connection.execute(SQL["event_oldest"], (space.first, space.last)):
        lines = _decode(text)
        start = seq - len(lines) + 1
        old = next((i for i, line in enumerate(lines) if start + i > floor and line[1] > horizon), len(lines))
        found.append((seq, lines, old))
        looked_at += len(lines)
        if old < len(lines) or looked_at >= events:
            break
    return [each for each in found if each[2]]


def prune(connection: Database, space: Space, now: float, events: int) -> int:
    """Stops at the row that brings it to so many events."""
    pruned = 0
    for seq, lines, old in outlived(connection, space, now, events):
        if old == len(lines):
            connection.execute(SQL["event_delete"], (seq,))
        else:
            connection.execute(SQL["event_cut"], (_encode(lines[old:]), seq))
        pruned += old
    return pruned
