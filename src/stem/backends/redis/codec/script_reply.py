"""Tell an answer of a script from a refusal: what a push names and is not there."""

import msgspec

from stem.core.errors import StoreRefused

_MAP = 0x80  # the first half byte of a small packed map; a script that answers replies with a list


def answered(reply: bytes) -> bytes:
    """The packed reply. Raises StoreRefused if it names a missing prerequisite or join."""
    if reply[0] & 0xF0 != _MAP:
        return reply
    missing = _decode_refusal(reply)
    if "join" in missing:
        raise StoreRefused(f"There is no join {missing['join']} that still waits for its members; nothing was stored.")
    raise StoreRefused(
        f"There is no task {missing['prerequisite']} to wait for; nothing was stored. Enqueue it first, or in the same call."
    )


_decode_refusal = msgspec.msgpack.Decoder(dict[str, str]).decode
