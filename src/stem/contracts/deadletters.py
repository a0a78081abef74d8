"""Tasks that were given up: read them, replay them, drop them."""

from abc import ABC, abstractmethod

from stem.core.delivery import DeadFilter, DeadLetter
from stem.core.record import Page


class DeadLetters(ABC):
    @abstractmethod
    def get(self, task_id: str) -> DeadLetter | None: ...

    @abstractmethod
    def page(self, where: DeadFilter, *, limit: int, cursor: str | None = None) -> Page[DeadLetter]:
        """Newest first. Following the cursor shows each letter once, also while new ones arrive."""

    @abstractmethod
    def replay(
        self, where: DeadFilter, *, limit: int = 1000, delay_seconds: float = 0.0, dry_run: bool = False
    ) -> list[str]:
        """Queue matching letters again, newest first, each once however many callers try; returns their ids.

        State `queued`, attempt 0, no deaths, no error, event `replayed`; the letter is gone, its expiry dropped. The record's
        meta has `replayCount` and `lastReplayAt` from here on. A dry run changes nothing and returns what would be replayed.
        """

    @abstractmethod
    def purge(self, where: DeadFilter, *, limit: int = 1000) -> int:
        """Drop matching letters for good, newest first; returns how many. The task's record stays."""
