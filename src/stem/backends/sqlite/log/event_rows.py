"""Read and write the event log's rows: several events per row, as one JSON text."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL

# Large enough that rows cost nothing, small enough that a reader of a few events does not decode many.
EVENTS_A_ROW = 200

# kind, at, task id, name, queue, attempt, worker, enqueued at, started at, data
Line = tuple[str, float, str, str, str, int, str | None, float, float | None, dict[str, Any] | None]
# New tasks that are alike: how many, their ids with commas between them, name, queue, tenant
Run = tuple[int, str, str, str, str | None]
Database = sqlite3.Connection | sqlite3.Cursor

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Line]).decode


def append(connection: Database, namespace: SqliteNamespace, lines: Sequence[Line]) -> None:
    """Append events in the transaction of their change. The writers' lock makes offsets follow the commits."""
    offset = namespace.first + namespace.take_numbers(connection, "offset", len(lines)) - 1
    chunks = [lines[start : start + EVENTS_A_ROW] for start in range(0, len(lines), EVENTS_A_ROW)]
    for chunk in chunks:
        offset += len(chunk)
        connection.execute(SQL["event_insert"], (offset, _encode(chunk)))


def append_enqueued(
    connection: Database, namespace: SqliteNamespace, runs: Iterable[Run], now: float, count: int
) -> set[str]:
    """Log this many new tasks, in runs that fit a row, as `append` would; returns their queues. Ids are plain text, so
    that a row is put together without a look at each."""
    offset = namespace.first + namespace.take_numbers(connection, "offset", count) - 1
    queues = set()
    for rows, ids, name, queue, tenant in runs:
        data = None if tenant is None else {"tenant": tenant}
        front, back = _encode([("enqueued", now, "\x01", name, queue, 0, None, now, None, data)]).split(b"\\u0001")
        text = front + ids.encode().replace(b",", back[:-1] + b"," + front[1:]) + back
        offset += rows
        connection.execute(SQL["event_insert"], (offset, text))
        queues.add(queue)
    return queues


def read(connection: Database, namespace: SqliteNamespace, after: int, limit: int) -> list[tuple[int, Line]]:
    """Offsets and lines that follow an offset."""
    found: list[tuple[int, Line]] = []
    for seq, text in connection.execute(SQL["event_read"], (namespace.first + max(after, 0), namespace.last)):
        lines = _decode(text)
        offset = seq - namespace.first - len(lines)
        found += [(offset + i, line) for i, line in enumerate(lines, 1) if offset + i > after]
        if len(found) >= limit:
            break
    return found[: max(limit, 0)]


def head(connection: Database, namespace: SqliteNamespace) -> int | None:
    (seq,) = connection.execute(SQL["event_last"], (namespace.first, namespace.last)).fetchone()
    return None if seq is None else int(seq) - namespace.first


def outlived(
    connection: Database, namespace: SqliteNamespace, now: float, events: int
) -> list[tuple[int, list[Line], int]]:
    """Of the rows that hold the oldest so many events: number, lines, and how many of these, from the first on, age or
    count has outlived."""
    newest = head(connection, namespace)
    if newest is None:
        return []
    floor = namespace.first + newest - namespace.retention.events_count  # offsets have no gaps
    horizon = now - namespace.retention.events_seconds
    found: list[tuple[int, list[Line], int]] = []
    looked_at = 0
    for seq, text in connection.execute(SQL["event_oldest"], (namespace.first, namespace.last)):
        lines = _decode(text)
        start = seq - len(lines) + 1
        old = next((i for i, line in enumerate(lines) if start + i > floor and line[1] > horizon), len(lines))
        found.append((seq, lines, old))
        looked_at += len(lines)
        if old < len(lines) or looked_at >= events:
            break
    return [each for each in found if each[2]]


def prune(connection: Database, namespace: SqliteNamespace, now: float, events: int) -> int:
    """Stops at the row that reaches this many events."""
    pruned = 0
    for seq, lines, old in outlived(connection, namespace, now, events):
        if old == len(lines):
            connection.execute(SQL["event_delete"], (seq,))
        else:
            connection.execute(SQL["event_cut"], (_encode(lines[old:]), seq))
        pruned += old
    return pruned
