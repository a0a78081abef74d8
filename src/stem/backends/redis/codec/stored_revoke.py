"""Read and write revoke records as the server stores them."""

import msgspec

from stem.backends.redis.codec.values import when
from stem.core.revoke import RevokeRecord


class StoredRevoke(msgspec.Struct, frozen=True, omit_defaults=True):
    """A revoke."""

    task: str
    reason: str
    requester: str
    terminate: bool
    signal: str | None = None
    lifetime: int | None = None
    version: int = 0
    created: int = 0
    expires: int | None = None
    seal: str = ""


def revoke(packed: bytes) -> RevokeRecord:
    stored = _decode_revoke(packed)
    return RevokeRecord(
        task_id=stored.task,
        version=stored.version,
        reason=stored.reason,
        requester=stored.requester,
        terminate=stored.terminate,
        signal=stored.signal,
        created_at=when(stored.created),
        expires_at=None if stored.expires is None else when(stored.expires),
        seal=stored.seal,
    )


_decode_revoke = msgspec.msgpack.Decoder(StoredRevoke).decode
