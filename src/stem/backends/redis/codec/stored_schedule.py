"""Read schedules as the server stores them: a packed list of revision, entry and state, the last two as JSON."""

import msgspec

from stem.contracts.schedules import Scheduled, read_scheduled


def scheduled(entry_id: str, stored: bytes) -> Scheduled | None:
    """Raises StoreRefused, naming the entry, if it cannot be read."""
    return read_scheduled(entry_id, *_parts(stored))


def scheduled_or_none(entry_id: str, stored: bytes) -> Scheduled | None:
    """None if it cannot be read."""
    return read_scheduled(entry_id, *_parts(stored), is_strict=False)


def _parts(stored: bytes) -> tuple[object, object, object]:
    try:
        return _decode(stored)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return (0, b"", b"")


_decode = msgspec.msgpack.Decoder(tuple[int, str, str]).decode
