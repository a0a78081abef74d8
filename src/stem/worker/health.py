"""The worker as probes see it."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stem.core.delivery import Depth
from stem.core.errors import StoreUnavailable
from stem.telemetry.metrics import Metrics
from stem.worker.services.queue_depths import queue_depths

if TYPE_CHECKING:
    from stem.worker.lifecycle import RunningWorker

_NOT_READY = ("starting", "draining", "wedged")


class WorkerHealth:
    """Implements Probed for a worker that may not have started yet: `running` is set when its services are built."""

    def __init__(self) -> None:
        self.running: RunningWorker | None = None

    @property
    def metrics(self) -> Metrics | None:
        return None if self.running is None else self.running.services.metrics

    def liveness(self) -> str:
        running = self.running
        if running is None or not running.is_started or running.services.is_draining:
            return ""
        if not running.services.pool.is_alive:
            return "The pool's thread has ended."
        stuck_seconds = time.monotonic() - running.watched_at if running.watched_at is not None else 0.0
        if stuck_seconds > running.settings.stall_seconds:
            return f"The supervisor has not looked after its services for {stuck_seconds:.0f} s."
        return ""

    def readiness(self) -> dict[str, Any]:
        running = self.running
        if running is None:
            return {"ready": False, "state": "starting"}
        services, now = running.services, time.monotonic()
        state = running.steering.state if running.is_started else "starting"
        is_connected = running.is_connected
        beaten_at, fetched_at = running.heartbeat.beaten_at, services.fetcher.fetched_at
        pool = services.pool
        return {
            "ready": state not in _NOT_READY and is_connected,
            "state": state,
            "broker": "connected" if is_connected else "away",
            "workerId": services.settings.name,
            "namespace": services.store.namespace,
            "queues": services.queues,
            "pausedQueues": sorted(services.paused),
            "concurrency": pool.concurrency,
            "inFlight": len(pool.running),
            "reserved": pool.waiting,
            "isolates": pool.pids,
            "lastHeartbeatAt": None if beaten_at is None else _moment(beaten_at, now),
            "lastHeartbeatAgeSeconds": _age(beaten_at, now),
            "lastFetchAgeSeconds": _age(fetched_at, now),
        }

    def depths(self, queues: Sequence[str]) -> Mapping[str, Depth]:
        running = self.running
        if running is None:
            raise StoreUnavailable("The worker is starting; ask again.")
        services = running.services
        return queue_depths(
            services.store.broker, queues or services.queues, is_fair=services.store_settings.fair_share
        )


def _age(at: float | None, now: float) -> float | None:
    return None if at is None else round(max(0.0, now - at), 3)


def _moment(at: float, now: float) -> str:
    return datetime.fromtimestamp(time.time() - (now - at), UTC).isoformat(timespec="milliseconds")
