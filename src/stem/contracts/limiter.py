"""Limits that hold over the whole fleet, in store time."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import isfinite

import msgspec

from stem.core.errors import UsageError


class Bucket(msgspec.Struct, frozen=True):
    """`tokens` every `per_seconds`, at most `burst` saved up. Starts full."""

    key: str
    tokens: float
    per_seconds: float
    burst: float

    def __post_init__(self) -> None:
        is_rate = self.tokens > 0 and self.per_seconds > 0 and isfinite(self.tokens + self.per_seconds + self.burst)
        if not is_rate or self.burst < 1:
            raise UsageError(f"{self} could never grant a token; give it a rate above 0 and a burst of at least 1.")

    @property
    def pace_seconds(self) -> float:
        """How long a token takes to come."""
        return self.per_seconds / self.tokens


class Place(msgspec.Struct, frozen=True):
    """One of `limit` places for the key, for `ttl_seconds` unless renewed."""

    key: str
    holder: str
    limit: int
    ttl_seconds: float

    def __post_init__(self) -> None:
        if not (isfinite(self.ttl_seconds) and self.ttl_seconds > 0):
            raise UsageError(f"{self} could not be held for any time; give it a ttl_seconds above 0.")


class Limiter(ABC):
    @abstractmethod
    def take(self, buckets: Sequence[Bucket]) -> list[float]:
        """One token from each bucket in order (the same key may appear many times), one answer each: 0.0 granted, else
        seconds after which to come back, spread so that a backlog does not come back all at once. A refusal takes nothing.
        A bucket whose rate or burst was changed goes by the new ones at once. Atomic, in the store's time."""

    @abstractmethod
    def hold(self, places: Sequence[Place]) -> list[bool]:
        """Occupy one of `limit` places for each key in order; again by the same holder renews, and is always granted while
        it holds. A dead holder's place frees itself when its time is up. Atomic, in the store's time."""

    @abstractmethod
    def free(self, places: Sequence[Place]) -> None:
        """Give the places up, whatever their limit. One that is not held: no-op."""
