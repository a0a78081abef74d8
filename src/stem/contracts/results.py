"""Task records: state, result and error of each task."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from stem.core.record import Page, TaskFilter, TaskRecord


class Results(ABC):
    """Records of ended tasks can be read for the store's retention, counted from their end; they may be deleted later than that.
    Records of other tasks stay."""

    @abstractmethod
    def get(self, task_ids: Sequence[str], *, past_retention: bool = False) -> dict[str, TaskRecord]:
        """The records that exist. An unknown id is not in the answer.

        With `past_retention`, those as well that are kept only because a task that waited for them needs them (see
        `Broker.push`).
        """

    @abstractmethod
    def wait(self, task_ids: Sequence[str], *, timeout_seconds: float) -> dict[str, TaskRecord]:
        """Sleep until at least one of the tasks has ended or the time is up, and return those that have ended.

        An ending in any process wakes the caller. An unknown id is waited for like any other. The time is kept even if the store
        is gone; StoreUnavailable is raised then.
        """

    @abstractmethod
    def page(self, where: TaskFilter, *, limit: int, cursor: str | None = None) -> Page[TaskRecord]:
        """One page of records, newest enqueued first. Following the cursor shows each record once, even as new ones arrive."""

    @abstractmethod
    def save(self, records: Sequence[TaskRecord]) -> None:
        """Store records of tasks that run in another store: all or none, without events. Wakes waiters.

        A record is left out if the stored one is later: by fence, then attempt, then stage (waiting, running, ended).
        """
