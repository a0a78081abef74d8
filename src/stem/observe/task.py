"""One task: its record, its call, its events and its relatives."""

import time
from datetime import datetime, timedelta
from typing import Any

import msgspec

from stem.contracts.history import HistoryFilter
from stem.contracts.store import Store
from stem.core.delivery import DeadLetter
from stem.core.envelope import Envelope, decode
from stem.core.errors import EnvelopeUnreadable
from stem.core.event import Event
from stem.core.lifecycle import State
from stem.core.prerequisites import CANVAS, first_cause
from stem.core.record import REPLAY_OF, TaskFilter, TaskRecord
from stem.observe.event_log import events_between

TIMELINE_SECONDS = 2.0  # for reading a busy log
MOST_CHILDREN = 20
MOST_PREREQUISITES = 20
LOOKED_AT = 1000  # of its prerequisites
_PARENT, _ROOT, _CANVAS = "parentId", "rootId", "canvasId"
_SLACK = timedelta(seconds=2)


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of related tasks. `children` and `replays` are records, newest first, at most MOST_CHILDREN."""

    parent: str | None = None
    root: str | None = None
    replay_of: str | None = None
    schedule: str | None = None
    canvas: str | None = None
    children: list[TaskRecord] = []
    replays: list[TaskRecord] = []

    @property
    def is_empty(self) -> bool:
        named = self.parent or self.root or self.replay_of or self.schedule or self.canvas
        return not (named or self.children or self.replays)


class Prerequisites(msgspec.Struct, frozen=True):
    """The first of the tasks that must end before this one starts, those first that have not. `count` are all that it names;
    `missing` of those that were looked at have not ended."""

    records: list[TaskRecord]
    count: int
    missing: int


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """`envelope` is known until the task has succeeded or was cancelled; `due_at` while it waits. `cause` is the task whose
    failure cancelled this one."""

    record: TaskRecord
    envelope: Envelope | None
    letter: DeadLetter | None
    due_at: datetime | None
    lineage: Lineage
    prerequisites: Prerequisites | None = None
    cause: str | None = None

    @property
    def arguments(self) -> str | None:
        """As indented JSON; None where the store no longer has them."""
        return None if self.envelope is None else indented(self.envelope.shown_args)

    @property
    def result(self) -> str | None:
        return None if self.record.payload is None else indented(self.record.payload)

    @property
    def run_seconds(self) -> float | None:
        started, finished = self.record.started_at, self.record.finished_at
        return None if started is None or finished is None else max(0.0, (finished - started).total_seconds())

    @property
    def wait_seconds(self) -> float | None:
        started = self.record.started_at
        return None if started is None else max(0.0, (started - self.record.enqueued_at).total_seconds())


class Timeline(msgspec.Struct, frozen=True):
    """Events of a task, oldest first. `is_whole` is False if the log was too busy to look at all of it."""

    events: list[Event]
    is_whole: bool


def task(store: Store, task_id: str) -> TaskView | None:
    """Return what is known of a task; None if the store has no record of it."""
    record = store.results.get([task_id]).get(task_id)
    if record is None:
        return None
    letter = store.deadletters.get(task_id) if record.state is State.FAILED else None
    cause = cause_of(record)
    peeked = store.broker.find(task_id) if cause is not None or not record.is_terminal else None
    body = letter.body if letter is not None else None if peeked is None else peeked.body
    envelope = None if body is None else _decoded(body)
    prerequisites = None if envelope is None else _prerequisites(store, envelope)
    is_blocked = prerequisites is not None and prerequisites.missing > 0
    is_waiting = not record.is_terminal and record.started_at is None and not is_blocked
    return TaskView(
        record=record,
        envelope=envelope,
        letter=letter,
        due_at=peeked.due_at if peeked is not None and is_waiting else None,
        lineage=_lineage(store, record),
        prerequisites=prerequisites,
        cause=cause,
    )


def cause_of(record: TaskRecord) -> str | None:
    """Return the task whose failure cancelled this one. One that failed itself may have raised anything, under any name."""
    return first_cause(record.error) if record.state is State.CANCELLED else None


def timeline(store: Store, record: TaskRecord) -> Timeline:
    """Return the events of a task. The log has no index by task, so a busy one is read for TIMELINE_SECONDS at most."""
    where = HistoryFilter(
        name=record.name,
        since=record.enqueued_at - _SLACK,
        until=None if record.finished_at is None else record.finished_at + _SLACK,
    )
    end = time.monotonic() + TIMELINE_SECONDS
    events, is_whole = events_between(store, where, task_id=record.id, deadline=end, clock=time.monotonic)
    return Timeline(events, is_whole)


def body_of(store: Store, record: TaskRecord) -> Envelope | None:
    """The call of a task that waits, runs or is a dead letter."""
    if record.state is State.FAILED:
        letter = store.deadletters.get(record.id)
        return None if letter is None else _decoded(letter.body)
    peeked = None if record.is_terminal else store.broker.find(record.id)
    return None if peeked is None else _decoded(peeked.body)


def indented(raw: bytes | msgspec.Raw) -> str:
    """JSON with line breaks, or the text as it is if it is none."""
    try:
        return msgspec.json.format(bytes(raw), indent=2).decode(errors="replace")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return bytes(raw).decode(errors="replace")


def _lineage(store: Store, record: TaskRecord) -> Lineage:
    meta = record.meta
    return Lineage(
        parent=_text(meta.get(_PARENT)),
        root=_text(meta.get(_ROOT)) if meta.get(_ROOT) not in (record.id, meta.get(_PARENT)) else None,
        replay_of=_text(meta.get(REPLAY_OF)),
        schedule=_text(meta.get("schedule")),
        canvas=record.id if record.name == CANVAS else _text(meta.get(_CANVAS)),
        children=_with_meta(store, record, _PARENT, until=record.finished_at),  # made while it ran
        replays=_with_meta(store, record, REPLAY_OF),
    )


def _prerequisites(store: Store, envelope: Envelope) -> Prerequisites | None:
    if not envelope.after:
        return None
    found = store.results.get(list(envelope.after[:LOOKED_AT]), past_retention=True)
    records = sorted(found.values(), key=lambda record: (record.is_terminal, record.state is State.SUCCEEDED))
    missing = sum(not record.is_terminal for record in records)
    return Prerequisites(records[:MOST_PREREQUISITES], len(envelope.after), missing)


def _with_meta(store: Store, record: TaskRecord, key: str, until: datetime | None = None) -> list[TaskRecord]:
    """A relative was enqueued later, which bounds the search."""
    end = None if until is None else until + _SLACK
    where = TaskFilter(meta={key: record.id}, since=record.enqueued_at - _SLACK, until=end)
    return store.results.page(where, limit=MOST_CHILDREN).items


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _decoded(body: bytes) -> Envelope | None:
    try:
        return decode(body)
    except EnvelopeUnreadable:
        return None
