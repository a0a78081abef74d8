"""Dead letters, the tasks that were given up: read, replay and delete them."""

from abc import ABC, abstractmethod

from stem.core.delivery import DeadFilter, DeadLetter
from stem.core.record import Page


class DeadLetters(ABC):
    """A dead letter keeps its task's envelope and record until it is replayed or purged."""

    @abstractmethod
    def get(self, task_id: str) -> DeadLetter | None:
        """The dead letter of this task, if there is one."""

    @abstractmethod
    def page(self, where: DeadFilter, *, limit: int, cursor: str | None = None) -> Page[DeadLetter]:
        """One page of matching letters, newest first. Following the cursor shows each letter once, even as new ones arrive."""

    @abstractmethod
    def replay(
        self, where: DeadFilter, *, limit: int = 1000, delay_seconds: float = 0.0, dry_run: bool = False
    ) -> list[str]:
        """Queue matching letters again, newest first, and return their ids. Concurrent callers replay each letter once.

        State `queued`, attempt 0, no deaths, no error, no expiry, event `replayed`; the letter is gone. The record's meta gets
        `replayCount` and `lastReplayAt`. A dry run changes nothing and returns what would be replayed.
        """

    @abstractmethod
    def purge(self, where: DeadFilter, *, limit: int = 1000) -> int:
        """Delete matching letters for good, newest first, and return how many. The tasks' records stay for their retention."""
