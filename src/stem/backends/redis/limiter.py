"""Keep rate limits and places in Redis, one key per bucket; a key expires once a missing key would mean the same."""

from collections.abc import Sequence

from stem.backends.redis.namespace import RedisNamespace, microseconds
from stem.contracts.limiter import Bucket, Limiter, Place


class RedisLimiter(Limiter):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace

    def take(self, buckets: Sequence[Bucket]) -> list[float]:
        if not buckets:
            return []
        given = [(bucket.key, bucket.pace_seconds * 1_000_000, bucket.burst) for bucket in buckets]
        return [wait / 1_000_000 for wait in self._namespace.run("take", given)]

    def hold(self, places: Sequence[Place]) -> list[bool]:
        if not places:
            return []
        given = [(each.key, each.holder, each.limit, microseconds(each.ttl_seconds)) for each in places]
        return [bool(is_granted) for is_granted in self._namespace.run("hold", given)]

    def free(self, places: Sequence[Place]) -> None:
        if places:
            self._namespace.run("free", [(place.key, place.holder) for place in places])
