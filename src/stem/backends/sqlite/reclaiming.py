"""Take back what dead workers held, once those that live have had the chance to renew."""

import sqlite3
from collections.abc import Sequence

from stem.backends.sqlite.draft import Draft
from stem.backends.sqlite.space import Space
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.task import Task
from stem.core.delivery import Lease, Reclaimed
from stem.core.outcome import Dead
from stem.core.record import TaskError
from stem.core.watch import Watch, look

_STAMPS = 4  # a grace: the watch is written no more often, however many workers look


def reclaim(space: Space, limit: int, max_deaths: int, grace_seconds: float) -> Reclaimed:
    result = Reclaimed([], [])
    now = space.now()
    if grace_seconds > 0 and not _is_watched(space, now, grace_seconds):
        return result
    if not _any_overdue(space, now):
        return result
    with space.file.writing() as connection:
        draft = Draft(space, now)
        for row in connection.execute(SQL["task_overdue"], (space.first, space.last, now, limit)).fetchall():
            task = Task(*row)
            is_running = task.state == "running"
            task.deaths += is_running
            if task.deaths >= max_deaths:
                message = f"Worker {task.worker} was lost while it ran the task."
                error = TaskError("WorkerLost", message, retryable=True)
                draft.bury(task, Dead("crash-loop", error, {"deaths": task.deaths, "runs": task.attempt + task.deaths}))
                result.dead.append(task.id)
            else:
                if is_running:
                    connection.execute(SQL["lost_put"], (space.ns, task.id, task.fence, now))
                # Told first: the event names the lost worker and when the attempt started.
                draft.tell("requeued", task, now, {"reason": "lease-expired"})
                draft.wait_again(task, now)
                result.returned.append(task.id)
        draft.write(connection)
    space.ring(draft.topics)
    return result


def survived(space: Space, refused: Sequence[Lease]) -> None:
    """Whoever speaks has not died: what was reclaimed from it counts as no death."""
    if not refused:
        return
    with space.file.writing() as connection:
        for lease in dict.fromkeys(refused):
            if connection.execute(SQL["lost_drop"], (space.ns, lease.id, lease.fence)).rowcount:
                connection.execute(SQL["task_survived"], (space.ns, lease.id))


def _is_watched(space: Space, now: float, grace_seconds: float) -> bool:
    """Written only while something is leased: an idle worker never takes the writers' lock."""
    with space.file.reading() as connection:
        (is_leased,) = connection.execute(SQL["lease_any"], (space.first, space.last)).fetchone()
        before = _watch(connection, space)
    if not is_leased:
        return False
    watch = look(before, now, grace_seconds)
    if before is None or watch.since != before.since or now - before.seen_at > grace_seconds / _STAMPS:
        with space.file.writing() as connection:
            watch = look(_watch(connection, space), now, grace_seconds)  # another may have been first
            connection.execute(SQL["watch_put"], (space.ns, watch.seen_at, watch.since))
    return watch.lasts(now, grace_seconds)


def _watch(connection: sqlite3.Connection, space: Space) -> Watch | None:
    row = connection.execute(SQL["watch_get"], (space.ns,)).fetchone()
    return Watch(*row) if row else None


def _any_overdue(space: Space, now: float) -> bool:
    with space.file.reading() as connection:
        rows = connection.execute(SQL["task_overdue"], (space.first, space.last, now, 1)).fetchall()
    return bool(rows)
