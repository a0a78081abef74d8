"""A durable, versioned "do not run"."""

from datetime import datetime

import msgspec


class RevokeRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    task_id: str
    reason: str = ""
    requester: str = ""
    terminate: bool = False
    signal: str | None = None
    expires_seconds: float | None = None


class RevokeRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`version` grows with every write in the store, so a reader can tell a stale copy from a fresh one."""

    task_id: str
    version: int
    reason: str = ""
    requester: str = ""
    terminate: bool = False
    signal: str | None = None
    created_at: datetime
    expires_at: datetime | None = None
