"""Cancel the holder of a unique key for a push that supersedes it."""

import sqlite3

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks.releasing import cancel
from stem.backends.sqlite.tasks.task_row import TaskRow, json_text
from stem.backends.sqlite.tasks.waiting import leave_queues
from stem.backends.sqlite.tasks.write_batch import WriteBatch
from stem.core.envelope import Supersedes


def supersede(
    connection: sqlite3.Cursor,
    namespace: SqliteNamespace,
    batch: WriteBatch,
    holder: str,
    due_at: float | None,
    which: Supersedes,
) -> TaskRow | None:
    """Cancel the holder if it waits, or runs and may be stopped; returns it if so.

    All that came before in the transaction has been written. `due_at` is when the holder was due as it was pushed.
    """
    wanted = (namespace.ns, json_text([holder]))
    leased = connection.execute(SQL["task_held"], wanted).fetchall()
    found = leased or connection.execute(SQL["task_by_id"], wanted).fetchall()
    task = TaskRow(*found[0]) if found else None
    if task is None or task.state not in ("queued", "retried", "running"):
        return None
    if leased and which is not Supersedes.RUNNING:
        return None
    if not leased and not _leave(connection, namespace, task, due_at):
        return None
    cancel(batch, task, "superseded")
    return task


def _leave(connection: sqlite3.Cursor, namespace: SqliteNamespace, task: TaskRow, due_at: float | None) -> bool:
    """Most are still delayed where their pushes put them, and need not be looked for."""
    if due_at is not None:
        place = (namespace.ns, task.queue, due_at, task.seq)
        if connection.execute(SQL["delayed_delete"], place).rowcount:
            return True
    return bool(leave_queues(connection, namespace, [task]))
