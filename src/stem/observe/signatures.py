"""Whether the stored call of a task was signed with a key that we know."""

from typing import TYPE_CHECKING

from stem.client.send.signing import verify
from stem.core.delivery import Delivery, Lease
from stem.core.errors import EnvelopeUnreadable, SignatureInvalid

if TYPE_CHECKING:
    from stem.client.store_connection import StoreConnection
    from stem.observe.task import TaskView


def why_unsigned(connection: "StoreConnection", found: "TaskView") -> str:
    """Say in a sentence why the call must not be repeated under our key. Empty: it was signed, or there are no keys."""
    if not connection.keyring:
        return ""
    record, envelope = found.record, found.envelope
    if envelope is None:
        return f"The store no longer has the signed call of task {record.id}; enqueue it anew from where it is sent."
    stored = Delivery(Lease(record.id, 0), record.name, record.queue, record.attempt, 0, b"", record.priority)
    try:
        verify(envelope, stored, connection.keyring, namespace=connection.settings.namespace)
    except (SignatureInvalid, EnvelopeUnreadable) as error:
        return str(error)
    return ""
