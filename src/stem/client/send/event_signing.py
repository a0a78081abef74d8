"""Signs the events that are sent to tasks, and opens them before a task sees them."""

import msgspec

from stem.core.errors import SignatureInvalid
from stem.runtime.keys import Keyring

SIGNED = "#signed"  # ends the stored name of signed events, so that an unsigned one cannot take their place


class SentEvent(msgspec.Struct, frozen=True, rename="camel"):
    """An event as it is stored."""

    data: msgspec.Raw
    key_id: str | None = None
    signature: str | None = None


def event_name(name: str, keyring: Keyring) -> str:
    """Return the name under which an event is stored."""
    return name + SIGNED if keyring else name


def sealed(data: msgspec.Raw, task_id: str, name: str, *, keyring: Keyring, namespace: str) -> msgspec.Raw:
    """Return the event as it is stored, signed where there are keys."""
    key_id, signature = keyring.sign(_signed(data, task_id, name, namespace)) if keyring else (None, None)
    return msgspec.Raw(msgspec.json.encode(SentEvent(data, key_id, signature)))


def opened(stored: msgspec.Raw, task_id: str, name: str, *, keyring: Keyring, namespace: str) -> msgspec.Raw | None:
    """Return the data of a stored event; None if it cannot be read, or is not signed where there are keys."""
    try:
        event = msgspec.json.decode(stored, type=SentEvent)
        if keyring:
            data = _signed(event.data, task_id, name, namespace)
            keyring.verify(event.key_id or "", data, event.signature or "")
    except (msgspec.MsgspecError, SignatureInvalid):
        return None
    return event.data


def _signed(data: msgspec.Raw, task_id: str, name: str, namespace: str) -> bytes:
    return f"stem.event 1 {namespace}\n{task_id}\n{name}\n".encode() + bytes(data)
