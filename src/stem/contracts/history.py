"""Bulk reads of the whole event log or of all records, in slices that many readers can read at once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

import msgspec

from stem.core.errors import UsageError
from stem.core.lifecycle import EventKind, State

Relation = Literal["events", "tasks"]
Column = Sequence[Any]

# Moments are whole microseconds since 1970. `error`, `meta`, `payload` and `data` are JSON as text; the other texts are
# plain. Only worker, error, payload and the moments after `enqueued_at` can be None.
COLUMNS: dict[Relation, tuple[str, ...]] = {
    "events": (
        "offset", "kind", "at", "task_id", "name", "queue", "attempt", "worker", "enqueued_at", "started_at", "data",
    ),
    "tasks": (
        "id", "name", "queue", "state", "attempt", "priority", "worker", "error",
        "enqueued_at", "started_at", "finished_at", "heartbeat_at", "updated_at", "meta", "payload",
    ),
}  # fmt: skip


class HistoryFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """None means any. `since` and `until` bound the time of an event, and the time a task was enqueued. `kinds` is for events
    only, `state` for tasks only."""

    kinds: tuple[EventKind, ...] | None = None
    state: State | None = None
    queue: str | None = None
    name: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def since_microseconds(self) -> int | None:
        return None if self.since is None else microseconds(self.since.timestamp())

    @property
    def until_microseconds(self) -> int | None:
        return None if self.until is None else microseconds(self.until.timestamp())


ANY = HistoryFilter()


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """The range that one reader reads. It can be pickled or sent as JSON. `after` and `upto` are positions of the store's own."""

    relation: Relation
    after: str
    upto: str
    where: HistoryFilter = ANY


# The separator of texts in a packed column, and the text for None. Numbers are separated by commas; None is the least number.
GAP, NULL = "␟", "␀"
NO_NUMBER = -(2**63)


class Texts(msgspec.Struct, frozen=True):
    """A column of texts joined into one, in UTF-8, and how many of them are None."""

    joined: bytes
    nulls: int


class Numbers(msgspec.Struct, frozen=True):
    """A column of whole numbers joined into one text."""

    joined: bytes


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk of `count` rows, each column joined by the store.

    A text may contain GAP or equal NULL by chance. If there are more of them than `count` and `nulls` allow, the column cannot be
    split, and the reader reads `piece` with `chunks` instead.
    """

    piece: Slice
    count: int
    columns: list[Texts | Numbers]


class History(ABC):
    """Reads hold nothing open between two chunks, so that a slow reader blocks nobody."""

    @abstractmethod
    def advance(self, after: str | None, *, limit: int) -> str | None:
        """The offset `limit` events after the given one, or of the newest visible event if that is nearer.

        Returns the given offset if no event follows. Costs no more than reading `limit` entries of an index.
        """

    @abstractmethod
    def missed(self, after: str) -> int | None:
        """How many events after this offset retention has already deleted.

        None: perhaps some, because the event at the offset is itself deleted and the store does not count. 0 for an empty log.
        """

    @abstractmethod
    def slices(
        self,
        relation: Relation,
        where: HistoryFilter = ANY,
        *,
        count: int,
        after: str | None = None,
        upto: str | None = None,
    ) -> list[Slice]:
        """Cut what there is now into at most `count` slices of about the same size, in order; none if there is nothing.

        Each row is in exactly one slice. What is written after this call is in none.

        For events, `after` (exclusive) and `upto` (inclusive) choose a range of the log. Reading a slice again gives the same
        events for as long as retention keeps them. A task stays in one slice for its whole life and is read in its state at the
        time of reading; a record that retention deletes before that is left out.
        """

    @abstractmethod
    def chunks(self, piece: Slice, columns: Sequence[str]) -> Iterator[list[Column]]:
        """The rows of the slice in order, some thousands at a time, as the columns asked for.

        Raises UsageError for a column that the relation does not have.
        """

    def packed(self, piece: Slice, columns: Sequence[str]) -> Iterator[Packed | list[Column]]:
        """As `chunks`, with columns joined into one text where the store can do that faster."""
        yield from self.chunks(piece, columns)


def matches(relation: Relation, where: HistoryFilter, column: Callable[[str], Column]) -> list[bool] | None:
    """Which rows match, for a store that cannot filter by itself; None: all. `column` returns a column by its name."""
    moment = "at" if relation == "events" else "enqueued_at"
    since, until = where.since_microseconds, where.until_microseconds
    tests: list[list[bool]] = []
    for name, wanted in (("kind", where.kinds), ("state", where.state), ("queue", where.queue), ("name", where.name)):
        if wanted is not None:
            among = frozenset(wanted if isinstance(wanted, tuple) else (wanted,))
            tests.append([value in among for value in column(name)])
    if since is not None:
        tests.append([value >= since for value in column(moment)])
    if until is not None:
        tests.append([value < until for value in column(moment)])
    return [all(passed) for passed in zip(*tests, strict=True)] if tests else None


def microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)


def check_columns(relation: Relation, columns: Sequence[str]) -> None:
    known = COLUMNS[relation]
    for column in columns:
        if column not in known:
            raise UsageError(f"{relation} have no column {column!r}; the columns are {', '.join(known)}.")


def cuts(after: int, upto: int, count: int) -> list[tuple[int, int]]:
    """Divide the numbers after `after` and up to `upto` into at most `count` ranges."""
    size = upto - after
    count = max(1, min(count, size))
    bounds = [after + size * i // count for i in range(count + 1)]
    return list(pairwise(bounds)) if size > 0 else []


class NumberedHistory(History):
    """For a store that numbers its events and records one by one: slices are ranges of numbers."""

    def advance(self, after: str | None, *, limit: int) -> str | None:
        newest, dropped = self._ends("events")
        begin = max(int(after or 0), dropped)
        return str(min(begin + limit, newest)) if newest > begin else after

    def missed(self, after: str) -> int | None:
        _, dropped = self._ends("events")
        return max(0, dropped - int(after))

    def slices(
        self,
        relation: Relation,
        where: HistoryFilter = ANY,
        *,
        count: int,
        after: str | None = None,
        upto: str | None = None,
    ) -> list[Slice]:
        last, dropped = self._ends(relation)
        begin = max(int(after or 0), dropped)
        end = last if upto is None else min(int(upto), last)
        return [
            Slice(relation=relation, after=str(low), upto=str(high), where=where)
            for low, high in cuts(begin, end, count)
        ]

    @abstractmethod
    def _ends(self, relation: Relation) -> tuple[int, int]:
        """The newest number given, and the newest one that retention has deleted."""
