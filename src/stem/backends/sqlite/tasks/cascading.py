"""Carry the ends of tasks to those that wait for them, in the transaction of the end."""

import sqlite3

import msgspec

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks.releasing import cancel_for, release
from stem.backends.sqlite.tasks.task_row import TaskRow, by_seq, json_text
from stem.backends.sqlite.tasks.write_batch import WriteBatch
from stem.core import envelope as envelopes
from stem.core.errors import EnvelopeUnreadable
from stem.core.prerequisites import CASCADE_LIMIT, JOINS, OnFailure

Database = sqlite3.Connection | sqlite3.Cursor
# How a blocked task goes on when it is released: its number, `on_failure`, and when it is due
Freed = tuple[int, str, float]


def finish(connection: Database, batch: WriteBatch) -> None:
    """Write the batch, then update the tasks that wait for what has ended in it, and their dependents.

    Cancellations beyond `CASCADE_LIMIT` are left to `go_on`.
    """
    batch.write(connection)
    left = CASCADE_LIMIT
    while batch.succeeded or batch.failed:
        succeeded, failed = batch.succeeded, batch.failed
        batch.succeeded, batch.failed = [], []
        if succeeded:
            _count(connection, batch, succeeded)
        if failed:
            _run_all_the_same(connection, batch, failed)
            left -= _cancel(connection, batch, failed, left)


def go_on(namespace: SqliteNamespace) -> None:
    """Cancel more of what earlier calls left."""
    with namespace.database.reading() as connection:
        (is_any_left,) = connection.execute(SQL["cascade_any"], (namespace.first, namespace.last)).fetchone()
    if not is_any_left:
        return  # without the writers' lock
    with namespace.database.writing() as connection:
        batch = WriteBatch(namespace, namespace.now())
        given = (namespace.first, namespace.last, CASCADE_LIMIT)
        taken = [seq for (seq,) in connection.execute(SQL["cascade_take"], given).fetchall()]
        batch.failed += [seq for (seq,) in connection.execute(SQL["cascade_failed"], (json_text(taken),)).fetchall()]
        finish(connection, batch)
    namespace.ring(batch.topics)


def _count(connection: Database, batch: WriteBatch, succeeded: list[int]) -> None:
    freed: list[Freed] = []
    rows = connection.execute(SQL["edge_succeeded"], (json_text(succeeded),)).fetchall()
    for seq, missing, on_failure, delay_seconds, due_at in rows:
        if missing > 0:
            batch.add["blocked_left"]((missing, seq))
        else:
            freed.append((seq, on_failure, _due_at(batch, delay_seconds, due_at)))
    _release(connection, batch, freed, has_failed=False)
    batch.write(connection)


def _run_all_the_same(connection: Database, batch: WriteBatch, failed: list[int]) -> None:
    """Tasks that run on failure, always or only then, have one failure less to wait for, or none at all."""
    missing: dict[int, int] = {}
    freed: dict[int, Freed] = {}
    rows = connection.execute(SQL["edge_failed"], (json_text(failed),)).fetchall()
    for prerequisite, seq, stored, on_failure, delay_seconds, due_at in rows:
        missing[seq] = 0 if on_failure == OnFailure.ONLY else missing.get(seq, stored) - 1
        batch.add["edge_counted"]((prerequisite, seq))
        if missing[seq] <= 0:
            freed[seq] = (seq, on_failure, _due_at(batch, delay_seconds, due_at))
    for seq, left in missing.items():
        if left > 0:
            batch.add["blocked_left"]((left, seq))
    _release(connection, batch, list(freed.values()), has_failed=True)
    batch.write(connection)


def _cancel(connection: Database, batch: WriteBatch, failed: list[int], limit: int) -> int:
    """Cancel up to this many tasks that can no longer run; returns how many. What is left is remembered."""
    rows = connection.execute(SQL["edge_cancelled"], (json_text(failed), limit + 1)).fetchall()
    if len(rows) > limit:
        for seq in failed[rows[limit][0] :]:
            batch.add["cascade_put"]((seq,))
    causes: dict[int, int] = {}
    for place, seq in rows[:limit]:
        causes.setdefault(seq, failed[place])
    ended = {task.seq: task for task in by_seq(connection, list(dict.fromkeys(causes.values())))}
    for task in by_seq(connection, list(causes)):
        cause = ended[causes[task.seq]]
        cancel_for(batch, task, (cause.id, cause.name, cause.state, cause.error))
        batch.add["blocked_revivable"]((task.seq,))
    batch.write(connection)
    return len(causes)


def _release(connection: Database, batch: WriteBatch, freed: list[Freed], *, has_failed: bool) -> None:
    if not freed:
        return
    tasks = by_seq(connection, [seq for seq, _, _ in freed])
    args = _arguments(connection, tasks)
    for task, (seq, on_failure, due_at) in zip(tasks, freed, strict=True):
        release(batch, task, due_at, on_failure=on_failure, has_failed=has_failed, args=args.get(seq))


def _arguments(connection: Database, tasks: list[TaskRow]) -> dict[int, msgspec.Raw]:
    """Those of joins, which are their values."""
    joins = [task.seq for task in tasks if task.name in JOINS]
    if not joins:
        return {}
    bodies = connection.execute(SQL["task_bodies"], (json_text(joins),)).fetchall()
    found = {}
    for seq, body in bodies:
        try:
            found[seq] = envelopes.decode(body).args
        except EnvelopeUnreadable:  # written by hand; what waits for it goes on all the same
            continue
    return found


def _due_at(batch: WriteBatch, delay_seconds: float | None, due_at: float) -> float:
    return due_at if delay_seconds is None else batch.now + delay_seconds
