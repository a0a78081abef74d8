"""The past in bulk: the whole log, or all records, cut into slices that many readers read at once."""

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
    """None means any. `since` and `until` bound when an event happened, and when a task was enqueued; `kinds` is of
    events only, `state` of tasks only."""

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
    """What one reader reads, anywhere: it can be pickled, and sent as JSON. `after` and `upto` are the store's own marks."""

    relation: Relation
    after: str
    upto: str
    where: HistoryFilter = ANY


# Between two texts of a packed column, and in place of one that is None; numbers have commas, and the least there is.
GAP, NULL = "␟", "␀"
NO_NUMBER = -(2**63)


class Texts(msgspec.Struct, frozen=True):
    """A column of texts as one, in UTF-8, and how many of them are None."""

    joined: bytes
    nulls: int


class Numbers(msgspec.Struct, frozen=True):
    """A column of whole numbers as one text of digits."""

    joined: bytes


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk of `count` rows, each column put together by its store. Texts may hold GAP or be NULL by chance: where there
    are more of these than `count` and `nulls` tell, the columns cannot be told apart, and `chunks` reads `piece` instead."""

    piece: Slice
    count: int
    columns: list[Texts | Numbers]


class History(ABC):
    """Reads hold nothing open between two chunks, so a slow reader is in nobody's way."""

    @abstractmethod
    def advance(self, after: str | None, *, limit: int) -> str | None:
        """The offset of the event that lies `limit` places after the given one, or of the newest one that a reader may
        see if that is nearer; the given one if none follows. Costs no more than a look at so many entries of an index."""

    @abstractmethod
    def missed(self, after: str) -> int | None:
        """How many events behind this offset retention has dropped already; None: some perhaps, for the event of the offset
        is dropped itself, and the store does not count them. An empty log tells nothing: 0."""

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

        Together they hold everything up to a bound that is fixed here, once each: what comes later is in none of them.
        Of events, `after` and `upto` choose a stretch of the log (behind the one, up to and with the other), and reading a
        slice again gives the same as long as retention keeps it. A task is in one slice for its whole life, and is read as
        it is when its slice is read; one that retention drops before that is left out.
        """

    @abstractmethod
    def chunks(self, piece: Slice, columns: Sequence[str]) -> Iterator[list[Column]]:
        """The slice's rows in order, some thousands at a time: of each chunk the columns that are asked for, equally long.

        Raises UsageError for a column that the relation does not have.
        """

    def packed(self, piece: Slice, columns: Sequence[str]) -> Iterator[Packed | list[Column]]:
        """As `chunks`, for a reader to whom a column is no list of values; a store that puts them together faster than it
        hands them out does so."""
        yield from self.chunks(piece, columns)


def matches(relation: Relation, where: HistoryFilter, column: Callable[[str], Column]) -> list[bool] | None:
    """Which rows pass, for a store that cannot choose by itself; None: all. `column` gives a column by its name."""
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
    """Where to cut a row of numbers, those behind `after` and up to `upto`, into at most so many parts."""
    size = upto - after
    count = max(1, min(count, size))
    marks = [after + size * i // count for i in range(count + 1)]
    return list(pairwise(marks)) if size > 0 else []


class NumberedHistory(History):
    """Of a store whose log and records are numbered one by one, so that slices are ranges of numbers."""

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
        """The newest number given, and the newest one that retention has dropped."""
