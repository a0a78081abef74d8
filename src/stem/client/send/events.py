"""Sends an event to a task that waits for it."""

from typing import Any

from stem.client.run.steps import check_event_name
from stem.client.send.event_signing import event_name, sealed
from stem.client.send.retry import retry_while_unavailable
from stem.client.store_connection import StoreConnection
from stem.core.envelope import check_id
from stem.core.errors import TaskEnded, TaskNotFound
from stem.core.text.encode import encode_json


def send_event(connection: StoreConnection, task_id: str, name: str, data: Any) -> None:
    """Store an event for a task, signed where there are keys. Raises TaskNotFound, TaskEnded, InvalidArguments."""
    check_id(task_id)
    check_event_name(name)
    keyring, settings = connection.keyring, connection.settings
    encoded = encode_json(data, what="the data of an event", limit_bytes=settings.max_args_bytes)
    stored = sealed(encoded, task_id, name, keyring=keyring, namespace=settings.namespace)
    stored_as = event_name(name, keyring)
    if not retry_while_unavailable(
        lambda: connection.store.steps.send(task_id, stored_as, stored), settings.timeout_seconds
    ):
        record = connection.store.results.get([task_id]).get(task_id)
        if record is None:
            raise TaskNotFound(f"There is no task {task_id}; it was never enqueued here, or its result has expired.")
        raise TaskEnded(f"Task {task_id} has ended ({record.state}) and takes no more events.", record)
    connection.after_event()
