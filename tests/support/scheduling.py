"""Entries that are due, and what schedulers have made of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from stem import Stem
from stem.contracts.schedules import Scheduled, ScheduleEntry, ScheduleState
from stem.core.record import TaskFilter
from stem.scheduler.entries import EntryWriter


def writer(app: Stem) -> EntryWriter:
    return EntryWriter.of(app.store, app.settings)


def now(app: Stem) -> datetime:
    return datetime.fromtimestamp(app.store.upkeep.now(), UTC)


def due(app: Stem, entry_id: str = "it", *, seconds_ago: float = 1.0, **fields: Any) -> datetime:
    """Store an entry that has been due for a moment; its instant."""
    instant = now(app).replace(microsecond=0) - timedelta(seconds=seconds_ago)
    spec = f"every 1 hour from {instant.isoformat()}"
    entry = ScheduleEntry(id=entry_id, **{"task": "note", "spec": spec, **fields})
    state = ScheduleState(instant=instant, due_at=instant)
    assert app.store.schedules.write(writer(app).sealed(entry), state, revision=0)
    return instant


def stored(app: Stem, entry_id: str = "it") -> Scheduled:
    found = app.store.schedules.get(entry_id)
    assert found is not None
    return found


def tasks(app: Stem) -> list[str]:
    return [record.id for record in app.store.results.page(TaskFilter(), limit=1000).items]
