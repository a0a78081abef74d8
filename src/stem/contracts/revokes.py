"""Durable, versioned "do not run" marks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from math import inf

from stem.core.revoke import RevokeRecord, RevokeRequest


class Revokes(ABC):
    """Versions grow strictly with each record written, over all writers; a reader that follows them misses none."""

    @abstractmethod
    def put(self, requests: Sequence[RevokeRequest]) -> list[RevokeRecord]:
        """Durable when it returns, all or none, in order. A second mark for a task replaces the first, with a new version.
        `expires_seconds` counts from the store's now; None: never. A seal is kept as it is, and judged by whoever reads it."""

    @abstractmethod
    def get(self, task_ids: Sequence[str]) -> dict[str, RevokeRecord]:
        """Those that are marked and not expired."""

    @abstractmethod
    def since(self, version: int, *, limit: int) -> list[RevokeRecord]:
        """Live records with a higher version, lowest first."""

    def expiries(self, *, page: int = 10_000) -> Iterator[list[tuple[str, float]]]:
        """Every live mark's task, and when it expires in the store's seconds, infinity for never; page by page, in no order.
        A mark written meanwhile may be among them or not. A store overrides it where that is quicker than `since`."""
        for records in self.pages(0, page):
            yield [(each.task_id, each.expires_at.timestamp() if each.expires_at else inf) for each in records]

    def pages(self, version: int, limit: int) -> Iterator[list[RevokeRecord]]:
        """All live records with a higher version, lowest first."""
        while (records := self.since(version, limit=limit)) and records[-1].version > version:
            yield records
            version = records[-1].version

    @abstractmethod
    def version(self) -> int:
        """The highest version ever given, 0 if none."""

    @abstractmethod
    def prune(self) -> int:
        """Drop exactly the expired; returns how many."""
