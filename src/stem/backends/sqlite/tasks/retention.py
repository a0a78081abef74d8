"""Keep the record of a prerequisite past its retention, as long as a task that waited for it may read it."""

import sqlite3
from collections.abc import Iterable, Sequence

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks.task_row import json_text

_LOOK_AGAIN_SECONDS = 600.0
_STEPS = 20  # that put records off and delete none

_FORGETTING = ("task_delete", "edge_delete", "blocked_forget", "step_forget", "event_wait_forget")


def prune(connection: sqlite3.Connection, namespace: SqliteNamespace, now: float, limit: int) -> int:
    """Delete up to this many records past their retention. Records that are still needed are checked again later."""
    horizon = now - namespace.retention.results_seconds
    again_at = horizon + min(namespace.retention.results_seconds, _LOOK_AGAIN_SECONDS)
    for _ in range(_STEPS):
        old = connection.execute(SQL["task_outlived"], (namespace.ns, horizon, limit)).fetchall()
        gone = unneeded(connection, old, horizon)
        if len(gone) < len(old):
            kept = {seq for seq, _ in old}.difference(gone)
            connection.execute(SQL["task_put_off"], (json_text(list(kept)), again_at))
        if gone or not old:
            break
    forget(connection, gone)
    return len(gone)


def unneeded(
    connection: sqlite3.Connection | sqlite3.Cursor, outlived: Iterable[tuple[int, int | None]], horizon: float
) -> list[int]:
    """The numbers of those records past their retention that nobody may read any more; given with whether they are awaited."""
    rows = list(outlived)
    awaited = [seq for seq, is_awaited in rows if is_awaited]
    if not awaited:
        return [seq for seq, _ in rows]
    needed = {seq for (seq,) in connection.execute(SQL["task_needed"], (json_text(awaited), horizon)).fetchall()}
    return [seq for seq, _ in rows if seq not in needed]


def forget(connection: sqlite3.Connection | sqlite3.Cursor, seqs: Sequence[int]) -> None:
    """Delete these records, with all that belongs to them."""
    if seqs:
        wanted = json_text(seqs)
        for statement in _FORGETTING:
            connection.execute(SQL[statement], (wanted,))
