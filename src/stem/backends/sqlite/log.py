"""The event log's rows: some events each, as one JSON text."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from stem.backends.sqlite.space import Space
from stem.backends.sqlite.statements import SQL

# Large enough that rows cost nothing, small enough that a reader of a few events does not decode many.
EVENTS_A_ROW = 200

# kind, at, task id, name, queue, attempt, worker, enqueued at, started at, data
Line = tuple[str, float, str, str, str, int, str | None, float, float | None, dict[str, Any] | None]
# New tasks that are alike: how many, their ids with commas between them, name, queue
Run = tuple[int, str, str, str]
Database = sqlite3.Connection | sqlite3.Cursor

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Line]).decode


def append(connection: Database, space: Space, lines: Sequence[Line]) -> None:
    """In the transaction of the change that they tell of. The writers' lock makes offsets follow the commits."""
    offset = space.first + space.take_numbers(connection, "offset", len(lines)) - 1
    chunks = [lines[start : start + EVENTS_A_ROW] for start in range(0, len(lines), EVENTS_A_ROW)]
    for chunk in chunks:
        offset += len(chunk)
        connection.execute(SQL["event_insert"], (offset, _encode(chunk)))


def append_enqueued(connection: Database, space: Space, runs: Iterable[Run], now: float, count: int) -> set[str]:
    """Tell of so many new tasks, in runs that fit a row, as `append` would; returns their queues. Ids are plain text, so
    that a row is put together without a look at each."""
    offset = space.first + space.take_numbers(connection, "offset", count) - 1
    queues = set()
    for rows, ids, name, queue in runs:
        front, back = _encode([("enqueued", now, "\x01", name, queue, 0, None, now, None, None)]).split(b"\\u0001")
        text = front + ids.encode().replace(b",", back[:-1] + b"," + front[1:]) + back
        offset += rows
        connection.execute(SQL["event_insert"], (offset, text))
        queues.add(queue)
    return queues


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
