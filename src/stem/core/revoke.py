"""Revokes: durable, versioned orders not to run a task."""

import re
from datetime import datetime
from math import inf

import msgspec


class RevokeRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    task_id: str
    reason: str = ""
    requester: str = ""
    terminate: bool = False
    signal: str | None = None
    expires_seconds: float | None = None
    seal: str = ""  # see `Seal`; empty: it is not signed

    def stored(self, version: int, created_at: datetime, expires_at: datetime | None) -> "RevokeRecord":
        """The record of this request, with what the store has decided."""
        return RevokeRecord(
            task_id=self.task_id,
            version=version,
            reason=self.reason,
            requester=self.requester,
            terminate=self.terminate,
            signal=self.signal,
            created_at=created_at,
            expires_at=expires_at,
            seal=self.seal,
        )


class RevokeRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A stored revoke. `version` grows with every write in the store, so readers recognise stale copies."""

    task_id: str
    version: int
    reason: str = ""
    requester: str = ""
    terminate: bool = False
    signal: str | None = None
    created_at: datetime
    expires_at: datetime | None = None
    seal: str = ""


class Seal(msgspec.Struct, frozen=True):
    """What a signed revoke or pause carries. `stamp` grows with each one for an id, in microseconds of the store's clock: the
    store gives its version after signing, so the version cannot be signed. `expires_ms` is the end that was signed."""

    stamp: int
    expires_ms: int | None
    key_id: str
    signature: str

    def __str__(self) -> str:
        return f"{self.stamp}:{'' if self.expires_ms is None else self.expires_ms}:{self.key_id}:{self.signature}"

    @property
    def expires_at(self) -> float:
        """In the store's seconds; infinity for never."""
        return inf if self.expires_ms is None else self.expires_ms / 1000


def read_seal(text: str) -> Seal | None:
    """None for what is no seal."""
    found = _SEAL.fullmatch(text)
    if found is None:
        return None
    stamp, expires_ms, key_id, signature = found.groups()
    return Seal(int(stamp), int(expires_ms) if expires_ms else None, key_id, signature)


def sealed_bytes(revoke: RevokeRequest | RevokeRecord, *, namespace: str, stamp: int, expires_ms: int | None) -> bytes:
    """What a seal's signature covers."""
    signed = {
        "expiresMs": expires_ms,
        "id": revoke.task_id,
        "reason": revoke.reason,
        "requester": revoke.requester,
        "signal": revoke.signal,
        "stamp": stamp,
        "terminate": revoke.terminate,
    }
    return f"stem.revoke {namespace}\n".encode() + msgspec.json.encode(signed)


_SEAL = re.compile(r"([0-9]{1,18}):([0-9]{0,18}):([A-Za-z0-9._\-]{1,64}):([A-Za-z0-9+/=]{1,512})", re.ASCII)
