"""Keep rate limits and places in memory."""

import random
from collections.abc import Sequence

from stem.backends.memory.state import MemoryState
from stem.contracts.limiter import Bucket, Limiter, Place
from stem.core.decisions import ratelimit


class MemoryLimiter(Limiter):
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def take(self, buckets: Sequence[Bucket]) -> list[float]:
        with self._state.changed:
            now = self._state.clock()
            return [self._take(bucket, now) for bucket in buckets]

    def hold(self, places: Sequence[Place]) -> list[bool]:
        with self._state.changed:
            now = self._state.clock()
            return [self._hold(place, now) for place in places]

    def free(self, places: Sequence[Place]) -> None:
        with self._state.changed:
            for place in places:
                self._state.places.get(place.key, {}).pop(place.holder, None)

    def _take(self, bucket: Bucket, now: float) -> float:
        level, _ = self._state.buckets.get(bucket.key, (None, 0.0))
        answer, level = ratelimit.take(
            level,
            pace_seconds=bucket.pace_seconds,
            burst=bucket.burst,
            now=now,
            random_fraction=random.random(),  # noqa: S311 - nothing secret
        )
        self._state.buckets[bucket.key] = (level, ratelimit.full_at(level, bucket.burst))
        return answer

    def _hold(self, place: Place, now: float) -> bool:
        holders = self._state.places.setdefault(place.key, {})
        live = {holder for holder, until in holders.items() if until > now}
        is_granted = place.holder in live or len(live) < place.limit
        if is_granted:
            holders[place.holder] = now + place.ttl_seconds
        return is_granted
