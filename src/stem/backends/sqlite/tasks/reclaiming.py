"""Take back the tasks of dead workers, after live workers have had the chance to renew."""

import sqlite3
from collections.abc import Sequence

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks import cascading
from stem.backends.sqlite.tasks.task_row import TaskRow
from stem.backends.sqlite.tasks.write_batch import WriteBatch
from stem.core.decisions.reclaim_watch import ReclaimWatch, look
from stem.core.delivery import Lease, Reclaimed
from stem.core.outcome import Dead
from stem.core.record import TaskError

_STAMPS = 4  # a grace: the watch is written no more often, however many workers look


def reclaim(namespace: SqliteNamespace, limit: int, max_deaths: int, grace_seconds: float) -> Reclaimed:
    result = Reclaimed([], [])
    now = namespace.now()
    if grace_seconds > 0 and not _is_watched(namespace, now, grace_seconds):
        return result
    if not _any_overdue(namespace, now):
        return result
    with namespace.database.writing() as connection:
        batch = WriteBatch(namespace, now)
        for row in connection.execute(SQL["task_overdue"], (namespace.first, namespace.last, now, limit)).fetchall():
            task = TaskRow(*row)
            is_running = task.state == "running"
            task.deaths += is_running
            if task.deaths >= max_deaths:
                message = f"Worker {task.worker} was lost while it ran the task."
                error = TaskError("WorkerLost", message, retryable=True)
                batch.fail(task, Dead("crash-loop", error, {"deaths": task.deaths, "runs": task.attempt + task.deaths}))
                result.dead.append(task.id)
            else:
                if is_running:
                    connection.execute(SQL["lost_put"], (namespace.ns, task.id, task.fence, now))
                # Told first: the event names the lost worker and when the attempt started.
                batch.tell("requeued", task, now, {"reason": "lease-expired"})
                batch.wait_again(task, now)
                result.returned.append(task.id)
        cascading.finish(connection, batch)
    namespace.ring(batch.topics)
    return result


def survived(namespace: SqliteNamespace, refused: Sequence[Lease]) -> None:
    """Take back the deaths counted for leases that were reclaimed: their worker is alive."""
    if not refused:
        return
    with namespace.database.writing() as connection:
        for lease in dict.fromkeys(refused):
            if connection.execute(SQL["lost_drop"], (namespace.ns, lease.id, lease.fence)).rowcount:
                connection.execute(SQL["task_survived"], (namespace.ns, lease.id))


def _is_watched(namespace: SqliteNamespace, now: float, grace_seconds: float) -> bool:
    """Written only while something is leased: an idle worker never takes the writers' lock."""
    with namespace.database.reading() as connection:
        (is_leased,) = connection.execute(SQL["lease_any"], (namespace.first, namespace.last)).fetchone()
        before = _watch(connection, namespace)
    if not is_leased:
        return False
    watch = look(before, now, grace_seconds)
    if before is None or watch.since != before.since or now - before.seen_at > grace_seconds / _STAMPS:
        with namespace.database.writing() as connection:
            watch = look(_watch(connection, namespace), now, grace_seconds)  # another may have been first
            connection.execute(SQL["watch_put"], (namespace.ns, watch.seen_at, watch.since))
    return watch.has_lasted(now, grace_seconds)


def _watch(connection: sqlite3.Connection, namespace: SqliteNamespace) -> ReclaimWatch | None:
    row = connection.execute(SQL["watch_get"], (namespace.ns,)).fetchone()
    return ReclaimWatch(*row) if row else None


def _any_overdue(namespace: SqliteNamespace, now: float) -> bool:
    with namespace.database.reading() as connection:
        rows = connection.execute(SQL["task_overdue"], (namespace.first, namespace.last, now, 1)).fetchall()
    return bool(rows)
