"""Diagnose, prune and close a Redis store, and read its clock."""

import time

from stem.backends.redis.connection.server_info import facts, warnings
from stem.backends.redis.namespace import RedisNamespace, microseconds
from stem.backends.redis.revokes import RedisRevokes
from stem.contracts.store import Diagnosis, Upkeep

STEP = 1000  # records per script call


class RedisUpkeep(Upkeep):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace

    def now(self) -> float:
        return self._namespace.now()

    def diagnose(self) -> Diagnosis:
        client = self._namespace.client
        began = time.perf_counter()
        client.call("PING")
        latency = time.perf_counter() - began
        server = facts(client, "server")
        kind = "cluster" if server.get("redis_mode") == "cluster" else "server"
        return Diagnosis(
            backend="redis",
            server=f"Redis {server.get('redis_version', '?')} {kind} at {client.place}",
            latency_seconds=latency,
            warnings=warnings(client),
        )

    def prune(self) -> int:
        now = microseconds(self.now())
        retention = self._namespace.retention
        given = {
            "limit": STEP,
            "results": now - microseconds(retention.results_seconds),
            "events": now - microseconds(retention.events_seconds),
        }
        pruned = int(self._namespace.run("prune", given)) + RedisRevokes(self._namespace).prune()
        if pruned < STEP:  # else the next call comes soon
            for names in self._namespace.known_queues():
                self._namespace.run("prune_queues", names)
        return pruned

    def close(self) -> None:
        self._namespace.client.close()
