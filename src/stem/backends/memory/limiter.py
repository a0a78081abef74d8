"""Rate limits and places in memory."""

import random
from collections.abc import Sequence

from stem.backends.memory.space import Space
from stem.contracts.limiter import Bucket, Limiter, Place
from stem.core import ratelimit


class MemoryLimiter(Limiter):
    def __init__(self, space: Space) -> None:
        self._space = space

    def take(self, buckets: Sequence[Bucket]) -> list[float]:
        with self._space.changed:
            now = self._space.clock()
            return [self._take(bucket, now) for bucket in buckets]

    def hold(self, places: Sequence[Place]) -> list[bool]:
        with self._space.changed:
            now = self._space.clock()
            return [self._hold(place, now) for place in places]

    def free(self, places: Sequence[Place]) -> None:
        with self._space.changed:
            for place in places:
                self._space.places.get(place.key, {}).pop(place.holder, None)

    def _take(self, bucket: Bucket, now: float) -> float:
        level, _ = self._space.buckets.get(bucket.key, (None, 0.0))
        answer, level = ratelimit.take(
            level,
            pace_seconds=bucket.pace_seconds,
            burst=bucket.burst,
            now=now,
            chance=random.random(),  # noqa: S311 - nothing secret
        )
        self._space.buckets[bucket.key] = (level, ratelimit.full_at(level, bucket.burst))
        return answer

    def _hold(self, place: Place, now: float) -> bool:
        holders = self._space.places.setdefault(place.key, {})
        live = {holder for holder, until in holders.items() if until > now}
        is_granted = place.holder in live or len(live) < place.limit
        if is_granted:
            holders[place.holder] = now + place.ttl_seconds
        return is_granted
