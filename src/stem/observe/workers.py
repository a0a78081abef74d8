"""Workers, as their heartbeats describe them."""

from datetime import datetime
from typing import Any

import msgspec

from stem.contracts.store import Store
from stem.core.heartbeat import SCHEDULER, Pulse
from stem.core.record import moment

SILENT_BEATS = 2.5  # heartbeats that a worker may miss before it counts as silent
_BEAT_SECONDS = 10.0


class ScaleBounds(msgspec.Struct, frozen=True):
    minimum: int
    maximum: int


class WorkerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One worker or scheduler. What a heartbeat says may be forged where the store is open to others."""

    id: str
    state: str
    kind: str  # worker or scheduler
    host: str
    pid: int
    heard_at: datetime
    age_seconds: float
    is_silent: bool
    uptime_seconds: float
    queues: list[str]
    in_flight: int
    concurrency: int
    held: int
    memory_bytes: int
    load: float
    isolates: list[int]
    counters: dict[str, int]
    tasks: list[str]
    autoscale: ScaleBounds | None = None  # while it is on

    @property
    def succeeded(self) -> int:
        return self.counters.get("succeeded", 0)

    @property
    def failed(self) -> int:
        return self.counters.get("failed", 0)


def workers(store: Store) -> list[WorkerSummary]:
    """Return the live workers, by id."""
    now = store.upkeep.now()
    return [worker_view(pulse, now) for pulse in store.heartbeats.all()]


def worker_view(pulse: Pulse, now: float) -> WorkerSummary:
    beat = pulse.heartbeat
    extras = beat.extras
    every = _number(extras.get("beatSeconds"), _BEAT_SECONDS)
    tasks = extras.get("tasks")
    return WorkerSummary(
        id=beat.worker_id,
        state=str(extras.get("state", "ok")),
        kind="scheduler" if extras.get("kind") == SCHEDULER else "worker",
        host=beat.host,
        pid=beat.pid,
        heard_at=moment(now - pulse.age_seconds),
        age_seconds=pulse.age_seconds,
        is_silent=pulse.age_seconds > every * SILENT_BEATS,
        uptime_seconds=beat.uptime_seconds,
        queues=beat.queues,
        in_flight=beat.in_flight,
        concurrency=beat.concurrency,
        held=int(_number(extras.get("held"), 0)),
        memory_bytes=beat.memory_bytes,
        load=beat.load,
        isolates=[pid for pid in _list(extras.get("isolates")) if isinstance(pid, int)],
        counters=beat.counters,
        tasks=sorted(map(str, tasks)) if isinstance(tasks, dict) else [],
        autoscale=_bounds(extras.get("autoscale")),
    )


def _bounds(told: Any) -> ScaleBounds | None:
    if not isinstance(told, dict) or not all(isinstance(told.get(name), int) for name in ("min", "max")):
        return None
    return ScaleBounds(told["min"], told["max"])


def _number(value: Any, default: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
