"""Search tasks: by what the store can filter, and then by what has to be looked at one by one."""

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from stem.contracts.store import Store
from stem.core.errors import EnvelopeUnreadable, UsageError
from stem.core.lifecycle import State
from stem.core.record import TaskFilter, TaskRecord
from stem.observe.task import body_of

MOST_SCANNED = 20_000
MOST_BODIES = 1_000  # each of which is a call to the store
SCAN_SECONDS = 3.0
MOST_MATCHES = 10_000  # of one bulk action
_STEP = 500
_json = msgspec.json.encode  # in which 1 is not true


class TaskSearch(msgspec.Struct, frozen=True, kw_only=True):
    """None means any. `id` is a whole id; `error` and `text` are parts of the error and of the arguments."""

    id: str | None = None
    state: State | None = None
    queue: str | None = None
    name: str | None = None
    meta: dict[str, Any] | None = None
    error: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def looks_closer(self) -> bool:
        """Whether records have to be looked at one by one."""
        return self.error is not None or self.text is not None

    def filter(self) -> TaskFilter:
        return TaskFilter(
            state=self.state, queue=self.queue, name=self.name, since=self.since, until=self.until, meta=self.meta
        )


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """`scanned` records were looked at. `is_whole` is False if the search ended before everything was."""

    records: list[TaskRecord]
    cursor: str | None
    scanned: int
    is_whole: bool = True


def search(store: Store, where: TaskSearch, *, limit: int, cursor: str | None = None) -> Found:
    """Return one page of matching tasks, newest first. Raises UsageError for a cursor that no page gave."""
    if where.id is not None:
        records = [each for each in store.results.get([where.id]).values() if _matches(each, where)]
        records = list(_closer(store, records, where))
        return Found(records=records, cursor=None, scanned=len(records))
    try:
        if where.looks_closer:
            return _scan(store, where, limit=limit, cursor=cursor)
        page = store.results.page(where.filter(), limit=limit, cursor=cursor)
    except (ValueError, OverflowError) as error:
        if cursor is None:
            raise
        raise UsageError("This page's place in the list cannot be read; begin with the newest tasks.") from error
    return Found(records=page.items, cursor=page.cursor, scanned=len(page.items))


def matching(store: Store, where: TaskSearch) -> Found:
    """Return all matching tasks, up to MOST_MATCHES: those that a bulk action is for."""
    records: list[TaskRecord] = []
    scanned, cursor = 0, None
    while True:
        page = search(store, where, limit=_STEP, cursor=cursor)
        records += page.records
        scanned, cursor = scanned + page.scanned, page.cursor
        if cursor is None or not page.is_whole or len(records) >= MOST_MATCHES:
            is_whole = cursor is None and page.is_whole and len(records) <= MOST_MATCHES
            return Found(records=records[:MOST_MATCHES], cursor=None, scanned=scanned, is_whole=is_whole)


def _scan(store: Store, where: TaskSearch, *, limit: int, cursor: str | None) -> Found:
    """One page of the store at a time; a page that has matches beyond the limit is shown whole, so that none is lost."""
    found: list[TaskRecord] = []
    scanned, end = 0, time.monotonic() + SCAN_SECONDS
    most = MOST_BODIES if where.text is not None else MOST_SCANNED
    step = min(_STEP, 100) if where.text is not None else _STEP
    while True:
        page = store.results.page(where.filter(), limit=step, cursor=cursor)
        found += _closer(store, page.items, where)
        scanned, cursor = scanned + len(page.items), page.cursor
        if cursor is None or len(found) >= limit:
            return Found(records=found, cursor=cursor, scanned=scanned)
        if scanned >= most or time.monotonic() > end:
            return Found(records=found, cursor=cursor, scanned=scanned, is_whole=False)


def _closer(store: Store, records: list[TaskRecord], where: TaskSearch) -> Iterator[TaskRecord]:
    for record in records:
        if where.error is not None and not _has_error(record, where.error):
            continue
        if where.text is not None and not _has_text(store, record, where.text):
            continue
        yield record


def _has_error(record: TaskRecord, text: str) -> bool:
    error = record.error
    return error is not None and text.casefold() in f"{error.type}: {error.message}".casefold()


def _has_text(store: Store, record: TaskRecord, text: str) -> bool:
    """In the arguments, which the store has for tasks that wait, run or are dead letters. As they are shown: a search must
    not tell what a sensitive one is."""
    envelope = body_of(store, record)
    try:
        return envelope is not None and text.casefold() in envelope.shown_args.decode(errors="replace").casefold()
    except EnvelopeUnreadable:
        return False


def _matches(record: TaskRecord, where: TaskSearch) -> bool:
    """As the store filters."""
    return (
        where.state in (None, record.state)
        and where.queue in (None, record.queue)
        and where.name in (None, record.name)
        and (where.since is None or record.enqueued_at >= where.since)
        and (where.until is None or record.enqueued_at < where.until)
        and all(key in record.meta and _json(record.meta[key]) == _json(v) for key, v in (where.meta or {}).items())
    )
