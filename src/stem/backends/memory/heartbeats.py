"""Keep worker heartbeats in memory."""

from stem.backends.memory.state import MemoryState
from stem.contracts.steering.heartbeats import Heartbeats
from stem.core.heartbeat import Heartbeat, Pulse


class MemoryHeartbeats(Heartbeats):
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def beat(self, heartbeat: Heartbeat, *, ttl_seconds: float) -> None:
        with self._state.changed:
            now = self._state.clock()
            self._state.heartbeats[heartbeat.worker_id] = (heartbeat, now, now + ttl_seconds)

    def all(self) -> list[Pulse]:
        with self._state.changed:
            now = self._state.clock()
            known = sorted(self._state.heartbeats.items())
            return [Pulse(beat, max(0.0, now - at)) for _, (beat, at, until) in known if until > now]

    def forget(self, worker_id: str) -> bool:
        with self._state.changed:
            _, _, until = self._state.heartbeats.pop(worker_id, (None, 0.0, 0.0))
            return until > self._state.clock()
