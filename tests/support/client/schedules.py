"""Entries that are due, and what schedulers have made of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from stem import Stem
from stem.contracts.schedules import Scheduled, ScheduleEntry, ScheduleState
from stem.contracts.store import Store
from stem.core.record import TaskFilter
from stem.scheduler.beat import Beat
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


@contextmanager
def running(app: Stem) -> Iterator[Beat]:
    beat = Beat(app, "a")
    beat.start()
    try:
        yield beat
    finally:
        beat.stop()


def break_schedule(store: Store, entry_id: str) -> None:
    """Write rubbish in its place, as only a hand can."""
    schedules: Any = store.schedules
    match store.url.partition(":")[0]:
        case "sqlite":
            with schedules._namespace.database.writing() as connection:
                connection.execute("UPDATE stem_schedules SET entry = '[' WHERE id = ?", (entry_id,))
        case "redis":
            schedules._namespace.client.call("HSET", schedules._namespace.key("schedules"), entry_id, b"rubbish")
        case _:
            query = f"UPDATE {schedules._namespace.schema}.schedules SET entry = '[' WHERE id = %s"
            schedules._namespace.client.transaction(lambda conn: conn.execute(query, [entry_id]))


def rename_to_rubbish(store: Store, entry_id: str) -> bool:
    """Give it an id that is not UTF-8; False on Postgres, which holds no such text."""
    schedules: Any = store.schedules
    match store.url.partition(":")[0]:
        case "sqlite":
            with schedules._namespace.database.writing() as connection:
                connection.execute("UPDATE stem_schedules SET id = CAST(x'6fff' AS TEXT) WHERE id = ?", (entry_id,))
        case "redis":
            key, client = schedules._namespace.key("schedules"), schedules._namespace.client
            client.call("HSET", key, b"o\xff", client.call("HGET", key, entry_id))
            client.call("ZADD", f"{key}:due", 1, b"o\xff")
            store.schedules.delete(entry_id)
        case _:
            return False
    return True
