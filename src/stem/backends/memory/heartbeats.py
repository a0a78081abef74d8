"""Worker heartbeats in memory."""

from stem.backends.memory.space import Space
from stem.contracts.heartbeats import Heartbeats
from stem.core.heartbeat import Heartbeat, Pulse


class MemoryHeartbeats(Heartbeats):
    def __init__(self, space: Space) -> None:
        self._space = space

    def beat(self, heartbeat: Heartbeat, *, ttl_seconds: float) -> None:
        with self._space.changed:
            now = self._space.clock()
            self._space.heartbeats[heartbeat.worker_id] = (heartbeat, now, now + ttl_seconds)

    def all(self) -> list[Pulse]:
        with self._space.changed:
            now = self._space.clock()
            known = sorted(self._space.heartbeats.items())
            return [Pulse(beat, max(0.0, now - at)) for _, (beat, at, until) in known if until > now]

    def forget(self, worker_id: str) -> bool:
        with self._space.changed:
            _, _, until = self._space.heartbeats.pop(worker_id, (None, 0.0, 0.0))
            return until > self._space.clock()
