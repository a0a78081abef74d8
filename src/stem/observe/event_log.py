"""The event log: the newest events, filtered, and what operators did."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from stem.contracts.history import COLUMNS, Column, HistoryFilter, Slice
from stem.contracts.store import Store
from stem.core.event import Event
from stem.core.lifecycle import EventKind
from stem.core.record import moment

SLICES = 2000  # the log is read backwards, one of its slices at a time
MOST_ROWS = 20_000


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Empty text means any."""

    kind: str = ""
    name: str = ""
    queue: str = ""
    worker: str = ""

    def matches(self, event: Event) -> bool:
        wanted = (
            (self.kind, event.kind),
            (self.name, event.name),
            (self.queue, event.queue),
            (self.worker, event.worker),
        )
        return all(not text or text == value for text, value in wanted)


def newest_events(store: Store, where: EventFilter, *, limit: int) -> list[Event]:
    """Return matching events, newest first, of the last MOST_ROWS or so."""
    kinds = (EventKind(where.kind),) if where.kind in list(EventKind) else None
    wanted = HistoryFilter(kinds=kinds, name=where.name or None, queue=where.queue or None)
    found: list[Event] = []
    for events in _backwards(store, wanted):
        found += [event for event in events if where.matches(event)]
        if len(found) >= limit:
            break
    return found[:limit]


def operator_actions(store: Store, *, days: float = 30.0, limit: int = 200) -> list[Event]:
    """Return what operators did, newest first, for as long as the log keeps it."""
    since = moment(store.upkeep.now()) - timedelta(days=days)
    pieces = store.history.slices("events", HistoryFilter(kinds=(EventKind.OPERATOR_ACTED,), since=since), count=1)
    found = [event for piece in pieces for event in _events(store, piece)]
    return found[::-1][:limit]


def events_between(
    store: Store, where: HistoryFilter, *, task_id: str, deadline: float, clock: Any
) -> tuple[list[Event], bool]:
    """Return the events of one task, oldest first, and whether all that matches was looked at before the deadline."""
    found: list[Event] = []
    for piece in store.history.slices("events", where, count=200):
        if clock() > deadline:
            return found, False
        found += [event for event in _events(store, piece) if event.task_id == task_id]
    return found, True


def matching_events(store: Store, where: HistoryFilter) -> Iterator[Event]:
    """Return all that match and are kept, oldest first."""
    for piece in store.history.slices("events", where, count=1):
        yield from _events(store, piece)


def _backwards(store: Store, where: HistoryFilter) -> Iterator[list[Event]]:
    read = 0
    for piece in reversed(store.history.slices("events", where, count=SLICES)):
        events = list(_events(store, piece))
        yield events[::-1]
        read += max(1, len(events))
        if read > MOST_ROWS:
            return


def _events(store: Store, piece: Slice) -> Iterator[Event]:
    names = COLUMNS["events"]
    for chunk in store.history.chunks(piece, names):
        yield from (_event(dict(zip(names, row, strict=True))) for row in zip(*_plain(chunk), strict=True))


def _plain(chunk: list[Column]) -> list[list[Any]]:
    return [list(column) for column in chunk]


def _event(row: dict[str, Any]) -> Event:
    return Event(
        offset=str(row["offset"]),
        kind=EventKind(row["kind"]),
        at=_moment(row["at"]),
        task_id=row["task_id"],
        name=row["name"],
        queue=row["queue"],
        attempt=row["attempt"],
        worker=row["worker"],
        enqueued_at=_moment(row["enqueued_at"]),
        started_at=None if row["started_at"] is None else _moment(row["started_at"]),
        data=msgspec.json.decode(row["data"]) if row["data"] else {},
    )


def _moment(micros: int) -> datetime:
    return moment(micros / 1_000_000)
