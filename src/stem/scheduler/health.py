"""The scheduler as probes see it."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from stem.contracts.store import Store
from stem.core.delivery import Depth
from stem.scheduler.beat import Beat
from stem.scheduler.steering import BeatSteering
from stem.telemetry import instruments
from stem.telemetry.metrics import Metrics

STALL_SECONDS = 30.0  # a round takes two seconds, and calls of the store have deadlines


class SchedulerHealth:
    """Implements Probed. `is_started` is set once the beat runs."""

    def __init__(self, store: Store, beat: Beat, steering: BeatSteering) -> None:
        self._store = store
        self._beat = beat
        self._steering = steering
        self.is_started = False
        self.metrics = Metrics(store.namespace, steering.worker_id)
        self.metrics.read |= {
            instruments.DRIFT.name: lambda: {(): beat.drift_seconds},
            instruments.FIRED.name: lambda: {(): beat.fired},
            instruments.LEADER.name: lambda: {(): int(beat.is_leader)},
        }

    def liveness(self) -> str:
        if not self.is_started or self._steering.is_draining:
            return ""
        return "" if self._beat.is_alive else "The thread that enqueues what is due has ended."

    def readiness(self) -> dict[str, Any]:
        state = self._state()
        is_connected = not self._beat.is_failing
        ticked_at = self._beat.ticked_at
        return {
            "ready": state == "ok" and is_connected,
            "state": state,
            "broker": "connected" if is_connected else "away",
            "workerId": self._steering.worker_id,
            "namespace": self._store.namespace,
            "isLeader": self._beat.is_leader,
            "fired": self._beat.fired,
            "driftSeconds": round(self._beat.drift_seconds, 3),
            "lastRoundAgeSeconds": None if ticked_at is None else round(time.monotonic() - ticked_at, 3),
        }

    def depths(self, queues: Sequence[str]) -> Mapping[str, Depth]:
        """Of all queues if none are named."""
        return self._store.broker.depth(queues or None)

    def _state(self) -> str:
        ticked_at = self._beat.ticked_at
        if not self.is_started or (ticked_at is None and not self._beat.is_failing):
            return "starting"
        is_stalled = ticked_at is not None and time.monotonic() - ticked_at > STALL_SECONDS
        return "wedged" if is_stalled and not self._beat.is_failing else self._steering.state
