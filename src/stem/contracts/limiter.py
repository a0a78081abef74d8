"""Rate and concurrency limits shared by all workers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import isfinite

import msgspec

from stem.core.errors import UsageError


class Bucket(msgspec.Struct, frozen=True):
    """A token bucket: refilled with `tokens` every `per_seconds`, holds at most `burst`, starts full."""

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
        """Seconds until one token is refilled."""
        return self.per_seconds / self.tokens


class Place(msgspec.Struct, frozen=True):
    """One of `limit` concurrency slots of a key, held for `ttl_seconds` unless renewed."""

    key: str
    holder: str
    limit: int
    ttl_seconds: float

    def __post_init__(self) -> None:
        if not (isfinite(self.ttl_seconds) and self.ttl_seconds > 0):
            raise UsageError(f"{self} could not be held for any time; give it a ttl_seconds above 0.")


class Limiter(ABC):
    """Each call is atomic and goes by the store's clock."""

    @abstractmethod
    def take(self, buckets: Sequence[Bucket]) -> list[float]:
        """Take one token from each bucket, in order; the same key may appear many times.

        Returns 0.0 where a token was granted, else the seconds after which to try again, spread so that a backlog does not return
        all at once. A refusal takes nothing. A changed rate or burst applies at once.
        """

    @abstractmethod
    def hold(self, places: Sequence[Place]) -> list[bool]:
        """Occupy one of `limit` slots of each key, in order, and say for each whether that succeeded.

        A holder that still has its slot renews it, and is never refused. The slot of a dead holder is free when its time is up.
        """

    @abstractmethod
    def free(self, places: Sequence[Place]) -> None:
        """Give the slots up, whatever their limit. A slot that is not held is left out."""
