"""Durable, versioned records of revoked tasks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from math import inf

from stem.core.revoke import RevokeRecord, RevokeRequest


class Revokes(ABC):
    """Versions grow with each record written, over all writers. A reader that follows them misses none."""

    @abstractmethod
    def put(self, requests: Sequence[RevokeRequest]) -> list[RevokeRecord]:
        """Store all records or none, in order; durable when this returns. A second revoke of a task replaces the first.

        `expires_seconds` counts from now; None means never. The seal (a signature) is stored as it is, and checked by readers.
        """

    @abstractmethod
    def get(self, task_ids: Sequence[str]) -> dict[str, RevokeRecord]:
        """The records of those of these tasks that are revoked and not expired."""

    @abstractmethod
    def since(self, version: int, *, limit: int) -> list[RevokeRecord]:
        """Records with a higher version that have not expired, lowest version first."""

    def expiries(self, *, page: int = 10_000) -> Iterator[list[tuple[str, float]]]:
        """All revoked task ids and when each expires (infinity for never), page by page, in no order.

        A record written meanwhile may be among them or not. A store overrides this if it can do better than `since`.
        """
        for records in self.pages(0, page):
            yield [(each.task_id, each.expires_at.timestamp() if each.expires_at else inf) for each in records]

    def pages(self, version: int, limit: int) -> Iterator[list[RevokeRecord]]:
        """All records with a higher version that have not expired, page by page, lowest version first."""
        while (records := self.since(version, limit=limit)) and records[-1].version > version:
            yield records
            version = records[-1].version

    @abstractmethod
    def version(self) -> int:
        """The highest version ever written; 0 for none."""

    @abstractmethod
    def prune(self) -> int:
        """Delete the expired records, and return how many."""
