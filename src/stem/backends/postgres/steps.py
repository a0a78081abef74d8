"""Keep durable steps in Postgres, and events sent to tasks."""

import msgspec

from stem.backends.postgres.codec.text_columns import utf8
from stem.backends.postgres.namespace import PostgresNamespace
from stem.backends.postgres.notify.notifier import notification
from stem.contracts.steps import Step, Steps
from stem.core.delivery import Lease
from stem.core.record import moment


class PostgresSteps(Steps):
    def __init__(self, namespace: PostgresNamespace) -> None:
        self._namespace = namespace

    def record(self, lease: Lease, name: str, payload: msgspec.Raw) -> bool:
        ((is_held, is_new),) = self._namespace.call("record_step", lease.id, lease.fence, name, utf8(payload))
        if is_new:
            self._namespace.notify(notification())
        return bool(is_held)

    def all(self, task_id: str) -> list[Step]:
        rows = self._namespace.query("steps", id=task_id)
        return [Step(name, msgspec.Raw(payload.encode()), moment(at)) for name, payload, at in rows]

    def send(self, task_id: str, event: str, data: msgspec.Raw) -> bool:
        ((is_there, due_queue),) = self._namespace.call("send_event", task_id, event, utf8(data))
        if due_queue is not None:
            self._namespace.notify(notification([due_queue], logged=False))
        return bool(is_there)
