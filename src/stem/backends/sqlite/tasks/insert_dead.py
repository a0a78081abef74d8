"""Store calls that were given up elsewhere, as tasks that are dead letters from the start."""

from collections.abc import Sequence

import msgspec

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks.pushing import Pushing
from stem.backends.sqlite.tasks.task_row import TaskRow
from stem.backends.sqlite.tasks.write_batch import WriteBatch
from stem.core import envelope as envelopes
from stem.core.delivery import DeadCall
from stem.core.envelope import Push, Receipt


def insert_dead(namespace: SqliteNamespace, calls: Sequence[DeadCall], worker: str) -> list[Receipt]:
    if not calls:
        return []
    # Due at once, so that all enter where they are taken out again before anybody can look.
    pushes = [Push(each.envelope, delay_seconds=0.0) for each in calls]
    bodies = [envelopes.encode(each.envelope) for each in calls]
    with namespace.database.writing() as connection:
        batch = WriteBatch(namespace, namespace.now())
        pushing = Pushing(namespace, batch, connection.cursor(), pushes, links=False)
        receipts = list(map(pushing.push, pushes, bodies))
        batch.write(connection)
        made = {each.envelope.id: each for each, receipt in zip(calls, receipts, strict=True) if receipt.created}
        ids = msgspec.json.encode(list(made)).decode()
        second = WriteBatch(namespace, batch.now)
        for row in connection.execute(SQL["task_by_id"], (namespace.ns, ids)).fetchall():
            task = TaskRow(*row)
            _fail(second, namespace, task, made[task.id], worker)
        second.write(connection)
    namespace.ring(second.topics)
    return receipts


def _fail(batch: WriteBatch, namespace: SqliteNamespace, task: TaskRow, call: DeadCall, worker: str) -> None:
    batch.add["ready_delete"]((namespace.ns, task.queue, task.rank, task.seq))
    task.worker, task.attempt = worker, call.attempt
    if call.run_seconds is not None:
        batch.start(task, worker, call.run_seconds)
    batch.fail(task, call.settlement)
