"""Read history in bulk from Postgres: the log by offset, tasks by place in line, one short transaction per chunk."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
from psycopg import sql

from stem.backends.postgres.codec.rows import merged_meta
from stem.backends.postgres.codec.text_columns import seconds
from stem.backends.postgres.connection.deadline_connection import DeadlineConnection, Row
from stem.backends.postgres.events import PostgresEvents, position
from stem.backends.postgres.namespace import PostgresNamespace
from stem.backends.postgres.statements import query_text, text
from stem.contracts.history import ANY, Column, History, HistoryFilter, Relation, Slice, check_columns, cuts

_ROWS = 4096  # in a chunk
_START = "0-0"  # before any event


class PostgresHistory(History):
    def __init__(self, namespace: PostgresNamespace) -> None:
        self._namespace = namespace
        self._events = PostgresEvents(namespace)

    def advance(self, after: str | None, *, limit: int) -> str | None:
        txid, n = position(after)
        head = self._events.head()  # waits a moment for transactions that are about to end
        if head is None or not _is_behind(head, after):
            return after
        ((found,),) = self._query("history_advance", txid=txid, n=n, limit=max(1, limit))
        self._namespace.flush()  # it may be further than the head was
        return after if found is None else str(found)

    def missed(self, after: str) -> int | None:
        txid, n = position(after)
        ((is_known,),) = self._query("history_missed", txid=txid, n=n)
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
        ((total,),) = self._query("history_count", **stretch)
        if not total:
            return []
        step = -(-total // max(1, count))
        between = (
            [str(offset) for (offset,) in self._query("history_cuts", **stretch, step=step)] if step < total else []
        )
        return [after or _START, *between, end]

    def _task_marks(self, count: int) -> list[str]:
        ((first, last),) = self._namespace.query("history_ends")
        if first is None:
            return []
        pairs = cuts(first - 1, last, count)
        return [str(pairs[0][0]), *(str(high) for _, high in pairs)]

    def _event_chunks(self, piece: Slice, columns: Sequence[str]) -> Iterator[list[Column]]:
        query = _projected("history_events", ("offset", *columns), self._namespace.schema)
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
        query = _projected("history_tasks", ("seq", *read), self._namespace.schema)
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

    def _query(self, name: str, **values: Any) -> list[Row]:
        return self._ordered(query_text(name, self._namespace.schema), values)

    def _ordered(self, query: bytes, values: Mapping[str, Any]) -> list[Row]:
        def work(connection: DeadlineConnection) -> list[Row]:
            connection.execute(query_text("history_ordered", self._namespace.schema))
            return connection.execute(query, {"ns": self._namespace.name, **values}).fetchall()

        return self._namespace.client.transaction(work)


@cache
def _projected(name: str, columns: tuple[str, ...], schema: str) -> bytes:
    """The statement with the columns that are asked for alone."""
    inner = sql.SQL(text(f"queries/{name}.sql")).format(s=sql.Identifier(schema))
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
