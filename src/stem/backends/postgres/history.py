"""The past in bulk from Postgres: the log by its offsets, tasks by their place in line, a short transaction a chunk."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
from psycopg import sql

from stem.backends.postgres.columns import seconds
from stem.backends.postgres.events import PostgresEvents, position
from stem.backends.postgres.link import Timed
from stem.backends.postgres.records import merged_meta
from stem.backends.postgres.space import Space
from stem.backends.postgres.speaking import Row
from stem.backends.postgres.statements import ask, text
from stem.contracts.history import ANY, Column, History, HistoryFilter, Relation, Slice, check_columns, cuts

_ROWS = 4096  # in a chunk
_START = "0-0"  # before any event


class PostgresHistory(History):
    def __init__(self, space: Space) -> None:
        self._space = space
        self._events = PostgresEvents(space)

    def advance(self, after: str | None, *, limit: int) -> str | None:
        txid, n = position(after)
        head = self._events.head()  # waits a moment for transactions that are about to end
        if head is None or not _is_behind(head, after):
            return after
        ((found,),) = self._ask("history_advance", txid=txid, n=n, limit=max(1, limit))
        self._space.flush()  # it may be further than the head was
        return after if found is None else str(found)

    def missed(self, after: str) -> int | None:
        txid, n = position(after)
        ((is_known,),) = self._ask("history_missed", txid=txid, n=n)
        return 0 if is_known else None

    def slices(
        self,
        relation: Relation,
        where: HistoryFilter = ANY,
        *,
        count: int,
        after: str | None = None,
        upto: str | None = None,
    ) -> list[Slice]:
        marks = self._event_marks(after, upto, count) if relation == "events" else self._task_marks(count)
        return [Slice(relation=relation, after=low, upto=high, where=where) for low, high in pairwise(marks)]

    def chunks(self, piece: Slice, columns: Sequence[str]) -> Iterator[list[Column]]:
        check_columns(piece.relation, columns)
        return self._event_chunks(piece, columns) if piece.relation == "events" else self._task_chunks(piece, columns)

    def _event_marks(self, after: str | None, upto: str | None, count: int) -> list[str]:
        """The ends of the slices. Offsets cannot be computed with, so the index is counted through."""
        # Up to the head no transaction is open any more: what lies before it can only be read or dropped.
        head = self._events.head()
        end = head if upto is None or (head is not None and _is_behind(upto, head)) else upto
        if end is None:
            return []
        stretch = _stretch(after or _START, end)
        ((total,),) = self._ask("history_count", **stretch)
        if not total:
            return []
        step = -(-total // max(1, count))
        between = [str(mark) for (mark,) in self._ask("history_cuts", **stretch, step=step)] if step < total else []
        return [after or _START, *between, end]

    def _task_marks(self, count: int) -> list[str]:
        ((first, last),) = self._space.ask("history_ends")
        if first is None:
            return []
        pairs = cuts(first - 1, last, count)
        return [str(pairs[0][0]), *(str(high) for _, high in pairs)]

    def _event_chunks(self, piece: Slice, columns: Sequence[str]) -> Iterator[list[Column]]:
        query = _projected("history_events", ("offset", *columns), self._space.schema)
        after, is_more = piece.after, True
        while is_more:
            rows = self._rows(query, piece.where, **_stretch(after, piece.upto), kinds=_kinds(piece.where))
            is_more = len(rows) == _ROWS
            if rows:
                offsets, *found = zip(*rows, strict=True)
                yield list(found)
                after = offsets[-1]

    def _task_chunks(self, piece: Slice, columns: Sequence[str]) -> Iterator[list[Column]]:
        read = [*columns, *(["progress"] if "meta" in columns else [])]
        query = _projected("history_tasks", ("seq", *read), self._space.schema)
        after, upto, is_more = int(piece.after), int(piece.upto), True
        while is_more:
            rows = self._rows(query, piece.where, after=after, upto=upto, state=piece.where.state)
            is_more = len(rows) == _ROWS
            if rows:
                places, *found = zip(*rows, strict=True)
                known = dict(zip(read, found, strict=True))
                yield [_meta(known) if name == "meta" else known[name] for name in columns]
                after = places[-1]

    def _rows(self, query: bytes, where: HistoryFilter, **values: Any) -> list[Row]:
        shared = {
            "queue": where.queue,
            "name": where.name,
            "since": seconds(where.since),
            "until": seconds(where.until),
        }
        return self._ordered(query, {"limit": _ROWS, **shared, **values})

    def _ask(self, name: str, **values: Any) -> list[Row]:
        return self._ordered(ask(name, self._space.schema), values)

    def _ordered(self, query: bytes, values: Mapping[str, Any]) -> list[Row]:
        def work(connection: Timed) -> list[Row]:
            connection.execute(ask("history_ordered", self._space.schema))
            return connection.execute(query, {"ns": self._space.namespace, **values}).fetchall()

        return self._space.link.transaction(work)


@cache
def _projected(name: str, columns: tuple[str, ...], schema: str) -> bytes:
    """The statement with the columns that are asked for alone."""
    inner = sql.SQL(text(f"asks/{name}.sql")).format(s=sql.Identifier(schema))
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("SELECT {} FROM ({}) AS chunk").format(names, inner).as_bytes(None)


def _stretch(after: str, upto: str) -> dict[str, Any]:
    (txid, n), (last_txid, last_n) = position(after), position(upto)
    return {"txid": txid, "n": n, "last_txid": last_txid, "last_n": last_n}


def _is_behind(offset: str, other: str | None) -> bool:
    (txid, n), (other_txid, other_n) = position(offset), position(other)
    return (int(txid), n) > (int(other_txid), other_n)


def _kinds(where: HistoryFilter) -> list[str] | None:
    return None if where.kinds is None else [kind.value for kind in where.kinds]


def _meta(known: Mapping[str, Column]) -> list[str]:
    return [
        meta if progress is None and "\n" not in meta else msgspec.json.encode(merged_meta(meta, progress)).decode()
        for meta, progress in zip(known["meta"], known["progress"], strict=True)
    ]
