"""Count, show and cancel what waits."""

import sqlite3
from collections import defaultdict
from collections.abc import Sequence

from stem.backends.sqlite.draft import Draft
from stem.backends.sqlite.space import Space
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.task import Task, by_seq, json_text
from stem.core.delivery import Depth, Peeked
from stem.core.record import TaskError, moment

_PURGED_AT_ONCE = 1000


def depth(space: Space, queues: Sequence[str] | None) -> dict[str, Depth]:
    now = space.now()
    with space.file.reading() as connection:
        if queues is None:
            names = [name for (name,) in connection.execute(SQL["depth_queues"], (space.ns, space.first, space.last))]
        else:
            names = list(queues)
        return {
            name: Depth(*connection.execute(SQL["depth_of"], (space.ns, name, now, space.first, space.last)).fetchone())
            for name in names
        }


def peek(space: Space, queue: str, limit: int) -> list[Peeked]:
    with space.file.reading() as connection:
        rows = connection.execute(SQL["waiting_peek"], (space.ns, queue, space.now(), max(limit, 0))).fetchall()
    return [
        Peeked(id, name, queue, priority, attempt, moment(due_at), body)
        for id, name, queue, priority, attempt, due_at, body in rows
    ]


def cancel(space: Space, ids: Sequence[str], reason: str) -> list[str]:
    with space.file.writing() as connection:
        draft = Draft(space, space.now())
        found = connection.execute(SQL["task_by_id"], (space.ns, json_text(ids))).fetchall()
        tasks = [task for task in (Task(*row) for row in found) if task.state in ("queued", "retried")]
        waiting = _leave_queues(connection, space, tasks)
        cancelled = [task for task in tasks if task.seq in waiting]
        for task in cancelled:
            _cancel(draft, task, reason)
        draft.write(connection)
    space.ring(draft.topics)
    return [task.id for task in cancelled]


def _leave_queues(connection: sqlite3.Connection, space: Space, tasks: Sequence[Task]) -> set[int]:
    """The numbers of those that waited. When the delayed would be due is not known, so a queue of them is looked through."""
    left = set()
    delayed: defaultdict[str, list[int]] = defaultdict(list)
    for task in tasks:
        if connection.execute(SQL["ready_delete"], (space.ns, task.queue, task.rank, task.seq)).rowcount:
            left.add(task.seq)
        else:
            delayed[task.queue].append(task.seq)
    for queue, seqs in delayed.items():
        left |= {seq for (seq,) in connection.execute(SQL["delayed_drop"], (space.ns, queue, json_text(seqs)))}
    return left


def find(space: Space, task_id: str) -> Peeked | None:
    with space.file.reading() as connection:
        row = connection.execute(SQL["task_find"], (space.ns, task_id)).fetchone()
    if row is None:
        return None
    id, name, queue, priority, attempt, due_at, body = row
    return Peeked(id, name, queue, priority, attempt, moment(due_at), body)


def purge(space: Space, queue: str) -> int:
    """In steps, so that others can write in between; what has been claimed meanwhile stays."""
    with space.file.reading() as connection:
        waiting = connection.execute(SQL["waiting_all"], (space.ns, queue)).fetchall()
    return sum(
        _purge_step(space, queue, dict(waiting[start : start + _PURGED_AT_ONCE]))
        for start in range(0, len(waiting), _PURGED_AT_ONCE)
    )


def _purge_step(space: Space, queue: str, due_at: dict[int, float]) -> int:
    purged = 0
    with space.file.writing() as connection:
        draft = Draft(space, space.now())
        for task in by_seq(connection, list(due_at)):
            places = (
                ("ready_delete", (space.ns, queue, task.rank, task.seq)),
                ("delayed_delete", (space.ns, queue, due_at[task.seq], task.seq)),
            )
            if any(connection.execute(SQL[name], place).rowcount for name, place in places):
                _cancel(draft, task, "purged")
                purged += 1
        draft.write(connection)
    space.ring(draft.topics)
    return purged


def _cancel(draft: Draft, task: Task, reason: str) -> None:
    draft.end(task, "cancelled", TaskError("Cancelled", reason))
    draft.tell("revoked", task, draft.now, {"reason": reason})
