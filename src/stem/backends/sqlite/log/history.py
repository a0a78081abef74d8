"""Read history in bulk from an SQLite file: by row numbers, which follow the order of arrival and have no large gaps."""

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any

import msgspec

from stem.backends.sqlite.log import event_rows, history_columns
from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.contracts.history import (
    COLUMNS,
    Column,
    HistoryFilter,
    NumberedHistory,
    Packed,
    Relation,
    Slice,
    check_columns,
    matches,
)

_ROWS = 4096  # in a chunk: enough for an Arrow batch, and few enough for a processor's cache

# As event_rows.Line; what nobody may want to look into stays text.
_Line = tuple[str, float, str, str, str, int, str | None, float, float | None, msgspec.Raw]
_decode = msgspec.json.Decoder(list[_Line]).decode


class SqliteHistory(NumberedHistory):
    def __init__(self, namespace: SqliteNamespace) -> None:
        self._namespace = namespace

    def chunks(self, piece: Slice, columns: Sequence[str]) -> Iterator[list[Column]]:
        check_columns(piece.relation, columns)
        return self._events(piece, columns) if piece.relation == "events" else self._tasks(piece, columns)

    def packed(self, piece: Slice, columns: Sequence[str]) -> Iterator[Packed | list[Column]]:
        check_columns(piece.relation, columns)
        if piece.relation == "events":  # which are many to a row already
            yield from self._events(piece, columns)
        else:
            yield from history_columns.chunks(self._namespace, piece, columns)

    def _ends(self, relation: Relation) -> tuple[int, int]:
        return self._log_ends() if relation == "events" else self._record_ends()

    def _log_ends(self) -> tuple[int, int]:
        """The newest offset there is, and the newest one that retention has dropped."""
        with self._namespace.database.reading() as connection:
            newest = event_rows.head(connection, self._namespace)
            oldest = connection.execute(SQL["event_oldest"], (self._namespace.first, self._namespace.last)).fetchone()
        if newest is None:
            return 0, 0
        seq, lines = oldest
        return newest, seq - self._namespace.first - len(_decode(lines))

    def _record_ends(self) -> tuple[int, int]:
        with self._namespace.database.reading() as connection:
            first, last = connection.execute(
                SQL["history_ends"], (self._namespace.first, self._namespace.last)
            ).fetchone()
        return (0, 0) if first is None else (last - self._namespace.first, first - self._namespace.first - 1)

    def _tasks(self, piece: Slice, columns: Sequence[str]) -> Iterator[list[Column]]:
        query = _projected(columns)
        parameters = history_columns.parameters(self._namespace, piece) | {"limit": _ROWS}
        rows: list[tuple[Any, ...]] = []
        while not rows or len(rows) == _ROWS:
            with self._namespace.database.reading() as connection:
                rows = connection.execute(query, parameters).fetchall()
            if not rows:
                break
            places, *found = zip(*rows, strict=True)
            yield list(found)
            parameters["after"] = places[-1]

    def _events(self, piece: Slice, columns: Sequence[str]) -> Iterator[list[Column]]:
        after, upto = int(piece.after), int(piece.upto)
        while after < upto:
            first, lines = self._lines(after, upto)
            if not lines:
                break
            yield _event_columns(first, lines, piece.where, columns)
            after = first + len(lines) - 1

    def _lines(self, after: int, upto: int) -> tuple[int, list[_Line]]:
        """The next chunk of the log, and the offset of its first line."""
        namespace, begin = self._namespace, after + 1
        lines: list[_Line] = []
        with namespace.database.reading() as connection:
            for seq, text in connection.execute(SQL["event_read"], (namespace.first + after, namespace.last)):
                found = _decode(text)
                start = seq - namespace.first - len(found) + 1
                if start > upto:
                    break
                if not lines:
                    begin = max(start, begin)
                lines += found[max(0, after + 1 - start) : upto + 1 - start]
                if len(lines) >= _ROWS:
                    break
        return begin, lines


def _projected(columns: Sequence[str]) -> str:
    """The statement with the columns that are asked for alone; their names are the contract's, checked before."""
    names = ", ".join(f'"{name}"' for name in ("seq", *columns))
    return f"SELECT {names} FROM ({SQL['history_tasks']}) ORDER BY seq LIMIT :limit"  # noqa: S608 - no name comes from outside


def _event_columns(first: int, lines: Sequence[_Line], where: HistoryFilter, columns: Sequence[str]) -> list[Column]:
    stored: dict[str, Any] = dict(zip(COLUMNS["events"][1:], zip(*lines, strict=True), strict=True))

    def column(name: str) -> Column:
        match name:
            case "offset":
                return list(map(str, range(first, first + len(lines))))
            case "at" | "enqueued_at" | "started_at":
                return [None if seconds is None else round(seconds * 1_000_000) for seconds in stored[name]]
            case "data":
                return ["{}" if raw == b"null" else raw.decode() for raw in map(bytes, stored[name])]
            case _:
                return tuple(stored[name])

    passed = matches("events", where, column)
    return [column(name) if passed is None else list(compress(column(name), passed)) for name in columns]
