"""What is known of a task: its state, its value, its error."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from stem.core.record import Page, TaskFilter, TaskRecord


class Results(ABC):
    """Records of ended tasks live as long as the store's retention says, counted from their end; others stay. From then on
    they cannot be read, though they may be swept later."""

    @abstractmethod
    def get(self, task_ids: Sequence[str]) -> dict[str, TaskRecord]:
        """Those that exist. An unknown id is not in the answer."""

    @abstractmethod
    def wait(self, task_ids: Sequence[str], *, timeout_seconds: float) -> dict[str, TaskRecord]:
        """Sleep until at least one of them has ended, or the time is up; returns those that have ended.

        Woken by notification from any process; the time is kept even if the store is gone (StoreUnavailable, at its
        deadline). An unknown id is waited for like any other.
        """

    @abstractmethod
    def page(self, where: TaskFilter, *, limit: int, cursor: str | None = None) -> Page[TaskRecord]:
        """Newest enqueued first. Following the cursor shows each record once, also while new ones arrive."""

    @abstractmethod
    def save(self, records: Sequence[TaskRecord]) -> None:
        """Keep records of tasks that another store runs, all or none. A record is left out if the one here is later:
        by fence, then attempt, then stage (waiting, running, ended). Wakes waiters. Logs no events."""
