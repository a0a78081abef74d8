"""Statements and answers as plain text, straight through libpq: a third of what a cursor costs, and several in one go."""

import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from psycopg.errors import DataError, OperationalError, error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from stem.backends.postgres.refusals import DeadlinePassed

Cells = list[tuple[Any, ...]]  # each a text, or None, unless it is read otherwise

_READ, _WRITE = select.POLLIN, select.POLLOUT


@dataclass(frozen=True, slots=True)
class Statement:
    query: bytes  # its parameters are $1, $2 and so on
    values: tuple[str | None, ...]


def texts(result: PGresult, encoding: str) -> Cells:
    columns = range(result.nfields)
    value = result.get_value
    return [
        tuple([None if (raw := value(row, column)) is None else raw.decode(encoding) for column in columns])
        for row in range(result.ntuples)
    ]


def exchange(
    pgconn: PGconn,
    encoding: str,
    deadline: float | None,
    asked: Statement,
    also: Sequence[Statement] = (),
    read: Callable[[PGresult, str], Cells] = texts,
) -> Cells:
    """What the first one returns. Each is a transaction of its own; those that come along wait for no answer to the one
    before, and nobody is told if they fail. The connection is closed where it could have lost step."""
    statements = [asked, *also]
    sent = [_encoded(each.values, encoding) for each in statements]
    conversation = _Conversation(pgconn, deadline)
    try:
        if also and _can_pipeline():
            first = conversation.all_at_once(statements, sent)
        else:
            first, *_ = [conversation.one(each.query, values) for each, values in zip(statements, sent, strict=True)]
    except DeadlinePassed:
        raise  # the server is to be told to stop, on this connection
    except BaseException:
        pgconn.finish()
        raise
    if first.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        raise error_from_result(first, encoding)
    return read(first, encoding)


class _Conversation:
    def __init__(self, pgconn: PGconn, deadline: float | None) -> None:
        self._pgconn = pgconn
        self._deadline = deadline
        self._poller = select.poll()
        self._poller.register(pgconn.socket, _READ)

    def one(self, query: bytes, values: list[bytes | None]) -> PGresult:
        self._pgconn.send_query_params(query, values)
        self._send()
        first = self._expected()
        while self._next() is not None:
            pass
        return first

    def all_at_once(self, statements: Sequence[Statement], sent: Sequence[list[bytes | None]]) -> PGresult:
        pgconn = self._pgconn
        pgconn.enter_pipeline_mode()
        for each, values in zip(statements, sent, strict=True):
            pgconn.send_query_params(each.query, values)
            pgconn.pipeline_sync()
        self._send()
        results = [self._one_of_many() for _ in statements]
        pgconn.exit_pipeline_mode()
        return results[0]

    def _one_of_many(self) -> PGresult:
        result = self._expected()
        if self._next() is not None or self._expected().status != ExecStatus.PIPELINE_SYNC:
            raise OperationalError("the server's answers are out of step")
        return result

    def _expected(self) -> PGresult:
        result = self._next()
        if result is None:
            raise OperationalError("the server did not answer")
        return result

    def _next(self) -> PGresult | None:
        while self._pgconn.is_busy():
            self._await(_READ)
            self._pgconn.consume_input()
        return self._pgconn.get_result()

    def _send(self) -> None:
        """What a large batch does not get rid of at once goes out while the server may already be speaking."""
        while self._pgconn.flush():
            if self._await(_READ | _WRITE) & _READ:
                self._pgconn.consume_input()

    def _await(self, wanted: int) -> int:
        if wanted != _READ:
            self._poller.modify(self._pgconn.socket, wanted)
        try:
            left = None if self._deadline is None else max(0.0, self._deadline - monotonic()) * 1000
            ready = self._poller.poll(left)
        finally:
            if wanted != _READ:
                self._poller.modify(self._pgconn.socket, _READ)
        if not ready:
            raise DeadlinePassed("no answer by the deadline")
        return ready[0][1]


def _can_pipeline() -> bool:
    from psycopg import capabilities  # here, for it needs the whole driver

    return capabilities.has_pipeline()


def _encoded(values: Sequence[str | None], encoding: str) -> list[bytes | None]:
    encoded = [None if value is None else value.encode(encoding) for value in values]
    if any(value is not None and b"\x00" in value for value in encoded):  # libpq would take it for the end
        raise DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return encoded
