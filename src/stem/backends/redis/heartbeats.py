"""Keep worker heartbeats on Redis: one key per worker, which expires when the worker is to be forgotten."""

import msgspec

from stem.backends.redis.codec import values
from stem.backends.redis.namespace import RedisNamespace, milliseconds
from stem.contracts.steering.heartbeats import Heartbeats
from stem.core.heartbeat import Heartbeat, Pulse, read_heartbeat


class RedisHeartbeats(Heartbeats):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace

    def beat(self, heartbeat: Heartbeat, *, ttl_seconds: float) -> None:
        given = {"worker": heartbeat.worker_id, "ttl": milliseconds(ttl_seconds), "beat": values.json(heartbeat)}
        self._namespace.run("beat", given)

    def all(self) -> list[Pulse]:
        found = ((read_heartbeat(text), age) for age, text in _pulses(self._namespace.run("beats", 0)))
        pulses = [Pulse(beat, age / 1_000_000) for beat, age in found if beat is not None]
        return sorted(pulses, key=lambda pulse: pulse.heartbeat.worker_id)

    def forget(self, worker_id: str) -> bool:
        return bool(self._namespace.run("forget", worker_id))


_pulses = msgspec.msgpack.Decoder(list[tuple[int, str]]).decode
