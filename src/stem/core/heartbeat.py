"""A worker's sign of life, and what it says of itself."""

from typing import Any

import msgspec


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    worker_id: str
    namespace: str
    host: str
    pid: int
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
