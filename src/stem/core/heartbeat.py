"""A worker's heartbeat, with its queues, concurrency and counters."""

from typing import Annotated, Any

import msgspec

from stem.core.control import WorkerId

Pid = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    worker_id: WorkerId
    namespace: str
    host: str
    pid: Pid
    uptime_seconds: float
    concurrency: int
    in_flight: int
    queues: list[str]
    queue_depth: int = 0
    memory_bytes: int = 0
    load: float = 0.0
    counters: dict[str, int] = {}
    extras: dict[str, Any] = {}


class Pulse(msgspec.Struct, frozen=True):
    """A stored heartbeat. Its age is measured by the store's clock."""

    heartbeat: Heartbeat
    age_seconds: float


def read_heartbeat(text: bytes | str) -> Heartbeat | None:
    """Decode a heartbeat; None if it is malformed, because anyone may have written to the store."""
    try:
        return _heartbeats.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # ValueError: broken UTF-8
        return None


_heartbeats = msgspec.json.Decoder(Heartbeat)
