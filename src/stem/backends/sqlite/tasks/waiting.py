"""Count, list and cancel waiting tasks."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks import cascading, releasing
from stem.backends.sqlite.tasks.cascading import Database
from stem.backends.sqlite.tasks.task_row import TaskRow, by_seq, json_text
from stem.backends.sqlite.tasks.write_batch import WriteBatch
from stem.core.delivery import Depth, Peeked
from stem.core.record import moment

_PURGED_AT_ONCE = 1000


def depth(namespace: SqliteNamespace, queues: Sequence[str] | None) -> dict[str, Depth]:
    now = namespace.now()
    with namespace.database.reading() as connection:
        if queues is None:
            names = [
                name
                for (name,) in connection.execute(SQL["depth_queues"], (namespace.ns, namespace.first, namespace.last))
            ]
        else:
            names = list(queues)
        return {
            name: Depth(
                *connection.execute(
                    SQL["depth_of"], (namespace.ns, name, now, namespace.first, namespace.last)
                ).fetchone()
            )
            for name in names
        }


def peek(namespace: SqliteNamespace, queue: str, limit: int) -> list[Peeked]:
    with namespace.database.reading() as connection:
        rows = connection.execute(SQL["waiting_peek"], (namespace.ns, queue, namespace.now(), max(limit, 0))).fetchall()
    return [
        Peeked(id, name, queue, priority, attempt, moment(due_at), body)
        for id, name, queue, priority, attempt, due_at, body in rows
    ]


def cancel(namespace: SqliteNamespace, ids: Sequence[str], reason: str) -> list[str]:
    with namespace.database.writing() as connection:
        batch = WriteBatch(namespace, namespace.now())
        found = connection.execute(SQL["task_by_id"], (namespace.ns, json_text(ids))).fetchall()
        tasks = [task for task in (TaskRow(*row) for row in found) if task.state in ("queued", "retried")]
        waiting = leave_queues(connection, namespace, tasks)
        cancelled = [task for task in tasks if task.seq in waiting]
        for task in cancelled:
            releasing.cancel(batch, task, reason)
        cascading.finish(connection, batch)
    namespace.ring(batch.topics)
    return [task.id for task in cancelled]


def leave_queues(connection: Database, namespace: SqliteNamespace, tasks: Sequence[TaskRow]) -> set[int]:
    """The numbers of those that waited or were blocked. When the delayed would be due is not known, so a queue of them is
    looked through."""
    left = set()
    delayed: defaultdict[str, list[int]] = defaultdict(list)
    for task in tasks:
        places = (("ready_delete", (namespace.ns, task.queue, task.rank, task.seq)), ("blocked_drop", (task.seq,)))
        if any(connection.execute(SQL[name], place).rowcount for name, place in places):
            left.add(task.seq)
        else:
            delayed[task.queue].append(task.seq)
    for queue, seqs in delayed.items():
        rows = connection.execute(SQL["delayed_drop"], (namespace.ns, queue, json_text(seqs))).fetchall()
        left |= {seq for (seq,) in rows}
    return left


def find(namespace: SqliteNamespace, task_id: str) -> Peeked | None:
    with namespace.database.reading() as connection:
        row = connection.execute(SQL["task_find"], (namespace.ns, task_id)).fetchone()
    if row is None:
        return None
    id, name, queue, priority, attempt, due_at, body = row
    return Peeked(id, name, queue, priority, attempt, moment(due_at), body)


def purge(namespace: SqliteNamespace, queue: str) -> int:
    """Cancel in steps, so that others can write in between; tasks claimed meanwhile stay."""
    with namespace.database.reading() as connection:
        waiting = connection.execute(SQL["waiting_all"], (namespace.ns, queue)).fetchall()
    if len(waiting) > _PURGED_AT_ONCE:
        # Those that wait for others of the queue go first, or a step before theirs would cancel them for another reason.
        waiting.sort(key=lambda row: (not row[2], -row[0] if row[2] else row[0]))
    return sum(
        _purge_step(namespace, queue, {seq: due_at for seq, due_at, _ in waiting[start : start + _PURGED_AT_ONCE]})
        for start in range(0, len(waiting), _PURGED_AT_ONCE)
    )


def _purge_step(namespace: SqliteNamespace, queue: str, due_at: dict[int, float]) -> int:
    purged = 0
    with namespace.database.writing() as connection:
        batch = WriteBatch(namespace, namespace.now())
        for task in by_seq(connection, sorted(due_at)):
            places: Sequence[tuple[str, tuple[Any, ...]]] = (
                ("ready_delete", (namespace.ns, queue, task.rank, task.seq)),
                ("delayed_delete", (namespace.ns, queue, due_at[task.seq], task.seq)),
                ("blocked_drop", (task.seq,)),
            )
            if any(connection.execute(SQL[name], place).rowcount for name, place in places):
                releasing.cancel(batch, task, "purged")
                purged += 1
        cascading.finish(connection, batch)
    namespace.ring(batch.topics)
    return purged
