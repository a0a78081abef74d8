"""The clock, health, pruning and closing of a Redis store."""

import time

from stem.backends.redis.queues import known
from stem.backends.redis.revokes import RedisRevokes
from stem.backends.redis.server import facts, warnings
from stem.backends.redis.space import Space, microseconds
from stem.contracts.store import Diagnosis, Upkeep

STEP = 1000  # records a script call


class RedisUpkeep(Upkeep):
    def __init__(self, space: Space) -> None:
        self._space = space

    def now(self) -> float:
        return self._space.now()

    def diagnose(self) -> Diagnosis:
        link = self._space.link
        began = time.perf_counter()
        link.call("PING")
        latency = time.perf_counter() - began
        server = facts(link, "server")
        kind = "cluster" if server.get("redis_mode") == "cluster" else "server"
        return Diagnosis(
            backend="redis",
            server=f"Redis {server.get('redis_version', '?')} {kind} at {link.place}",
            latency_seconds=latency,
            warnings=warnings(link),
        )

    def prune(self) -> int:
        now = microseconds(self.now())
        retention = self._space.retention
        given = {
            "limit": STEP,
            "results": now - microseconds(retention.results_seconds),
            "events": now - microseconds(retention.events_seconds),
        }
        pruned = int(self._space.run("prune", given)) + RedisRevokes(self._space).prune()
        if pruned < STEP:  # else we are called again soon
            for names in known(self._space):
                self._space.run("prune_queues", names)
        return pruned

    def close(self) -> None:
        self._space.link.close()
