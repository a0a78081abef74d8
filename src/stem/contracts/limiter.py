"""Limits that hold over the whole fleet, in store time."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec


class Bucket(msgspec.Struct, frozen=True):
    """`tokens` every `per_seconds`, at most `burst` saved up."""

    key: str
    tokens: float
    per_seconds: float
    burst: float


class Limiter(ABC):
    @abstractmethod
    def take(self, buckets: Sequence[Bucket]) -> list[float]:
        """One token from each bucket, one answer each: 0 for granted, else the seconds until one will be there. Atomic a
        bucket; a refusal takes nothing."""

    @abstractmethod
    def hold(self, key: str, *, holder: str, limit: int, ttl_seconds: float) -> bool:
        """Occupy one of `limit` places for the key; again by the same holder renews. A dead holder's place frees itself."""

    @abstractmethod
    def free(self, key: str, *, holder: str) -> None: ...
