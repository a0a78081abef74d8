"""Keep durable steps in an SQLite file."""

import msgspec

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks.task_row import TaskRow, held, json_text
from stem.backends.sqlite.tasks.write_batch import WriteBatch
from stem.contracts.steps import EVENT, Step, Steps
from stem.core.delivery import Lease
from stem.core.record import moment


class SqliteSteps(Steps):
    def __init__(self, namespace: SqliteNamespace) -> None:
        self._namespace = namespace

    def record(self, lease: Lease, name: str, payload: msgspec.Raw) -> bool:
        with self._namespace.database.writing() as connection:
            task = held(connection, self._namespace.ns, [lease]).get(lease.id)
            if task is None or task.fence != lease.fence:
                return False
            batch = WriteBatch(self._namespace, self._namespace.now())
            if connection.execute(SQL["step_put"], (task.seq, name, bytes(payload), batch.now)).rowcount:
                batch.tell("step", task, batch.now, {"step": name})
            batch.write(connection)
        self._namespace.ring(batch.topics)
        return True

    def all(self, task_id: str) -> list[Step]:
        with self._namespace.database.reading() as connection:
            rows = connection.execute(SQL["step_all"], (self._namespace.ns, task_id)).fetchall()
        return [Step(name, msgspec.Raw(payload), moment(at)) for name, payload, at in rows]

    def send(self, task_id: str, event: str, data: msgspec.Raw) -> bool:
        namespace = self._namespace
        with namespace.database.writing() as connection:
            rows = connection.execute(SQL["task_by_id"], (namespace.ns, json_text([task_id]))).fetchall()
            task = TaskRow(*rows[0]) if rows else None
            if task is None or task.state not in ("queued", "retried", "running"):
                return False
            batch = WriteBatch(namespace, namespace.now())
            connection.execute(SQL["step_put"], (task.seq, EVENT + event, bytes(data), batch.now))
            for (due_at,) in connection.execute(SQL["event_wait_take"], (task.seq, event)).fetchall():
                place = (namespace.ns, task.queue, due_at, task.seq)
                if connection.execute(SQL["delayed_delete"], place).rowcount:
                    batch.enter(task, batch.now)
            batch.write(connection)
        namespace.ring(batch.topics)
        return True
