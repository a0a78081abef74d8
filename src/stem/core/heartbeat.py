"""A worker's sign of life, and what it says of itself."""

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
    """A heartbeat as the store remembers it; its age is in store time."""

    heartbeat: Heartbeat
    age_seconds: float


def read_heartbeat(text: bytes | str) -> Heartbeat | None:
    """None for what is no heartbeat: whoever can write to the store can write anything, and commands must go on."""
    try:
        return _heartbeats.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # ValueError: broken UTF-8
        return None


_heartbeats = msgspec.json.Decoder(Heartbeat)
