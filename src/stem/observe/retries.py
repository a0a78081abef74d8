"""Tasks that wait for another attempt, and when it is due."""

from datetime import UTC, datetime

import msgspec

from stem.contracts.store import Store
from stem.core.lifecycle import State
from stem.core.record import TaskFilter, TaskRecord

_NEVER = datetime.max.replace(tzinfo=UTC)


class WaitingRetry(msgspec.Struct, frozen=True):
    """`due_at` is None if the task has gone on meanwhile."""

    record: TaskRecord
    due_at: datetime | None


def retries(store: Store, *, queue: str | None = None, name: str | None = None, limit: int) -> list[WaitingRetry]:
    """Return the newest tasks in state `retried`, the next due first. One call to the store per task."""
    page = store.results.page(TaskFilter(state=State.RETRIED, queue=queue, name=name), limit=limit)
    found = [WaitingRetry(record, _due_at(store, record)) for record in page.items]
    return sorted(found, key=lambda each: (each.due_at or _NEVER, each.record.id))


def _due_at(store: Store, record: TaskRecord) -> datetime | None:
    peeked = store.broker.find(record.id)
    return None if peeked is None else peeked.due_at
