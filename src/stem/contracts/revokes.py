"""Durable, versioned "do not run" marks."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from stem.core.revoke import RevokeRecord, RevokeRequest


class Revokes(ABC):
    """Versions grow strictly with each record written, over all writers; a reader that follows them misses none."""

    @abstractmethod
    def put(self, requests: Sequence[RevokeRequest]) -> list[RevokeRecord]:
        """Durable when it returns, all or none, in order. A second mark for a task replaces the first, with a new version.
        `expires_seconds` counts from the store's now; None: never."""

    @abstractmethod
    def get(self, task_ids: Sequence[str]) -> dict[str, RevokeRecord]:
        """Those that are marked and not expired."""

    @abstractmethod
    def since(self, version: int, *, limit: int) -> list[RevokeRecord]:
        """Live records with a higher version, lowest first."""

    @abstractmethod
    def version(self) -> int:
        """The highest version ever given, 0 if none."""

    @abstractmethod
    def prune(self) -> int:
        """Drop exactly the expired; returns how many."""
