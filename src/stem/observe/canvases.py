"""Canvases: how far they are, and one of them as a tree with the path that decided how long it took."""

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from stem.client.canvas.handle import CanvasStatus
from stem.client.canvas.shape import read_shape
from stem.core.errors import StemError, StoreUnavailable, UsageError
from stem.core.lifecycle import TERMINAL, State
from stem.core.prerequisites import CANVAS
from stem.core.record import TaskFilter, TaskRecord, moment
from stem.observe.task import cause_of

if TYPE_CHECKING:
    from stem.client.app import Stem
    from stem.client.canvas.tree import TreeLine

LIST_SECONDS = 2.0  # for counting the tasks of all canvases of a list
MOST_COUNTED = 5_000  # tasks of a canvas that a list counts; more are counted on its own page
MOST_LINES = 500
MOST_DEPTH = 12  # drawn; what is deeper is drawn as if it were here
LARGE = 10_000  # tasks from which on a page is read anew less often
CALLBACKS = {"link": "on success", "link_error": "on failure"}  # lines that say what the next one is for
STATES = (State.SUCCEEDED, State.RUNNING, State.RETRIED, State.QUEUED, State.CANCELLED, State.FAILED)


class CanvasRow(msgspec.Struct, frozen=True, kw_only=True):
    """One canvas of a list. `status` is None where its tasks were not counted; `state` is then that of its join."""

    record: TaskRecord
    name: str | None = None
    total: int | None = None
    status: CanvasStatus | None = None
    problem: str = ""

    @property
    def state(self) -> State:
        return self.record.state if self.status is None else self.status.state

    @property
    def counts(self) -> list[tuple[State, int]]:
        return [] if self.status is None else in_order(self.status.counts)

    @property
    def done(self) -> int | None:
        return None if self.status is None else self.status.counts.get(State.SUCCEEDED, 0)


class CanvasList(msgspec.Struct, frozen=True):
    """`is_whole` is False if the time did not suffice to count the tasks of each."""

    rows: list[CanvasRow]
    cursor: str | None
    is_whole: bool


class DrawnLine(msgspec.Struct, frozen=True):
    """A line of the tree as nested lists need it: whether it begins a list, and how many end before it. `begins` and `lasts`
    say when it ran, in shares of the whole; `when` says when a callback runs."""

    line: "TreeLine"
    opens: bool
    closes: int
    when: str = ""
    begins: float | None = None
    lasts: float = 0.0

    @property
    def counts(self) -> list[tuple[State, int]]:
        return in_order(self.line.counts)

    @property
    def tone(self) -> str:
        """The state of its bar."""
        states = [self.line.state] if self.line.state is not None else list(self.line.counts)
        return states[0].value if len(states) == 1 else "several"

    @property
    def is_critical(self) -> bool:
        """What was cancelled has held up nothing."""
        return self.line.is_critical and self.line.state is not State.CANCELLED

    @property
    def is_task(self) -> bool:
        return self.line.kind == "task"


class CanvasView(msgspec.Struct, frozen=True, kw_only=True):
    """`lines` are at most MOST_LINES of `line_count`. `open_lists` are open after the last of them."""

    record: TaskRecord
    status: CanvasStatus
    lines: list[DrawnLine]
    line_count: int
    open_lists: int
    started_at: datetime | None
    finished_at: datetime | None
    critical_seconds: float | None
    cause: str | None

    @property
    def counts(self) -> list[tuple[State, int]]:
        return in_order(self.status.counts)

    @property
    def done(self) -> int:
        return self.status.counts.get(State.SUCCEEDED, 0)

    @property
    def seconds(self) -> float | None:
        """How long it took, from when it was submitted."""
        ended = self.finished_at if self.status.is_terminal else None
        return None if ended is None else max(0.0, (ended - self.record.enqueued_at).total_seconds())

    @property
    def is_large(self) -> bool:
        return self.status.total >= LARGE


def canvases(
    app: "Stem", *, limit: int, cursor: str | None = None, clock: Callable[[], float] = time.monotonic
) -> CanvasList:
    """Return one page of canvases, newest first. Counts their tasks for LIST_SECONDS at most. Raises UsageError for a
    cursor that no page gave."""
    try:
        page = app.store.results.page(TaskFilter(name=CANVAS), limit=limit, cursor=cursor)
    except (ValueError, OverflowError) as error:
        if cursor is None:
            raise
        raise UsageError("This page's place in the list cannot be read; begin with the newest canvases.") from error
    end, is_whole = clock() + LIST_SECONDS, True
    rows: list[CanvasRow] = []
    for record in page.items:
        is_whole = is_whole and clock() < end
        rows.append(_row(app, record) if is_whole else CanvasRow(record=record))
    return CanvasList(rows, page.cursor, is_whole)


def canvas(app: "Stem", canvas_id: str) -> CanvasView:
    """Return a canvas as it is now. Raises TaskNotFound."""
    status, lines = app.canvas(canvas_id).tree()
    record = app.store.results.get([canvas_id], past_retention=True)[canvas_id]
    started_at = min((line.started_at for line in lines if line.started_at is not None), default=None)
    finished_at = max((line.finished_at for line in lines if line.finished_at is not None), default=None)
    until = (finished_at if status.is_terminal else None) or moment(app.store.upkeep.now())
    drawn = _drawn(lines, started_at, until)
    shown = drawn[:MOST_LINES]
    critical = [each.line.seconds for each in drawn if each.is_critical and each.line.seconds is not None]
    return CanvasView(
        record=record,
        status=status,
        lines=shown,
        line_count=len(drawn),
        open_lists=sum(each.opens - each.closes for each in shown),
        started_at=started_at,
        finished_at=finished_at,
        critical_seconds=sum(critical) if critical else None,
        cause=cause_of(record) if status.is_terminal else None,
    )


def in_order(counts: dict[State, int]) -> list[tuple[State, int]]:
    """Counts above 0: what has succeeded first, what has failed last."""
    return [(state, counts[state]) for state in STATES if counts.get(state)]


def _row(app: "Stem", record: TaskRecord) -> CanvasRow:
    try:
        shape = read_shape(app.store, record)
        total = sum(len(entry.ids) for entry in shape.entries if not entry.aside)
        if total > MOST_COUNTED:
            return CanvasRow(record=record, name=shape.name, total=total)
        status = app.canvas(record.id).status()
        return CanvasRow(record=record, name=status.name, total=status.total, status=status)
    except StoreUnavailable:
        raise
    except (StemError, msgspec.MsgspecError) as error:  # one that cannot be read must not hide the others
        return CanvasRow(record=record, problem=str(error))


def _drawn(lines: Iterable["TreeLine"], started_at: datetime | None, until: datetime) -> list[DrawnLine]:
    """A depth is at most one more than the one before it, whatever the shape says: it may have been forged."""
    drawn: list[DrawnLine] = []
    depth, callback = -1, ("", -1)
    for line in lines:
        if line.kind in CALLBACKS:
            callback = (CALLBACKS[line.kind], line.depth)
            continue
        here = max(0, min(line.depth, depth + 1, MOST_DEPTH))
        when = callback[0] if line.aside and line.depth == callback[1] else ""
        begins, lasts = _shares(line, started_at, until)
        drawn.append(DrawnLine(line, here > depth, max(0, depth - here), when, begins, lasts))
        depth = here
    return drawn


def _shares(line: "TreeLine", started_at: datetime | None, until: datetime) -> tuple[float | None, float]:
    span = 0.0 if started_at is None else (until - started_at).total_seconds()
    if started_at is None or line.started_at is None or span <= 0:
        return None, 0.0
    ended = line.finished_at if _has_ended(line) and line.finished_at is not None else until
    begins = min(1.0, max(0.0, (line.started_at - started_at).total_seconds() / span))
    return begins, min(1.0 - begins, max(0.0, (ended - line.started_at).total_seconds() / span))


def _has_ended(line: "TreeLine") -> bool:
    return line.state in TERMINAL if line.state is not None else all(state in TERMINAL for state in line.counts)
