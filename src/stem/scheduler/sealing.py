"""Signs schedule entries where keys are set: a scheduler signs what it enqueues, so it must know who wants it."""

import msgspec

from stem.contracts.schedules import ScheduleEntry
from stem.core.errors import SignatureInvalid
from stem.core.ids import canonical
from stem.runtime.keys import Keyring


def sealed(entry: ScheduleEntry, keyring: Keyring, namespace: str) -> ScheduleEntry:
    """Return the entry signed; without keys, as it is."""
    bare = msgspec.structs.replace(entry, seal="")
    if not keyring:
        return bare
    key_id, signature = keyring.sign(_sealed_bytes(bare, namespace))
    return msgspec.structs.replace(bare, seal=f"{key_id}:{signature}")


def check_seal(entry: ScheduleEntry, keyring: Keyring, namespace: str) -> None:
    """Raises SignatureInvalid where there are keys and none of them has signed the entry."""
    if not keyring:
        return
    key_id, _, signature = entry.seal.rpartition(":")
    try:
        keyring.verify(key_id, _sealed_bytes(entry, namespace), signature)
    except SignatureInvalid as error:
        raise SignatureInvalid(
            f"Schedule {entry.id} is not signed with one of the keys; write it again with STEM_CONTROL_KEYS set."
        ) from error


def _sealed_bytes(entry: ScheduleEntry, namespace: str) -> bytes:
    """The version is not signed, because the store counts it."""
    return bytes(canonical([namespace, msgspec.structs.replace(entry, seal="", version=0)]))
