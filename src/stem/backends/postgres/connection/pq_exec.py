"""Execute statements through libpq with texts as parameters and results: a third of a cursor's cost, several per round trip."""

import select
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic
from typing import Any

from psycopg import capabilities
from psycopg.errors import DataError, OperationalError, error_from_result
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from stem.backends.postgres.connection.errors import DeadlinePassed

Cells = list[tuple[Any, ...]]  # each a text or None; a caller that unpacks rows knows which
Sent = tuple[bytes, list[bytes | None]]  # a query and its values

_READ, _WRITE = select.POLLIN, select.POLLOUT
_TIMES = 2  # a statement is sent in full; after that it is worth keeping
_UNKNOWN_NAME, _KNOWN_NAME = b"26000", b"42P05"
_WELL = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


@dataclass(frozen=True, slots=True)
class Statement:
    query: bytes  # its parameters are $1, $2 and so on
    values: tuple[str | None, ...]
    is_vital: bool = True  # else nobody is told if it fails


class PreparedStatements:
    """The statements that are prepared on a connection: those sent a few times, under names that are hashes of their text. Behind
    a pooler the next server may not have them; then none is prepared any more."""

    def __init__(self) -> None:
        self._sent: Counter[bytes] = Counter()
        self.names: dict[bytes, bytes] = {}
        self.is_worth_it = True

    def is_due(self, query: bytes) -> bool:
        if not self.is_worth_it or query in self.names:
            return False
        self._sent[query] += 1
        return self._sent[query] > _TIMES

    def give_up(self) -> None:
        self.is_worth_it = False
        self.names.clear()


class PqExecutor:
    """Executes statements over one connection."""

    def __init__(self, pgconn: PGconn, encoding: str, kept: PreparedStatements | None = None) -> None:
        self._pgconn = pgconn
        self._encoding = encoding
        self.prepared = kept
        self._deadline: float | None = None
        self._poller = select.poll()
        self._poller.register(pgconn.socket, _READ)

    def execute(self, deadline: float | None, asked: Statement, then: Statement | None = None) -> Cells:
        """Return the rows of the first statement. Each is a transaction of its own; the second is sent without waiting for the
        first, and executed whatever becomes of it. Raises the error of either. The connection is closed if it may be out of
        sync."""
        self._deadline = deadline
        statements = [asked] if then is None else [asked, then]
        sent = [(each.query, _encoded(each.values, self._encoding)) for each in statements]
        try:
            results = self._said(sent)
        except DeadlinePassed:
            raise  # the server is to be told to stop, on this connection
        except BaseException:
            self._pgconn.finish()
            raise
        for statement, result in zip(statements, results, strict=True):
            if result.status not in _WELL and statement.is_vital:
                raise error_from_result(result, self._encoding)
        return _texts(results[0], self._encoding)

    def has_ended(self) -> bool:
        """Whether the server has closed the connection: the socket of an idle one is readable only then."""
        return self._pgconn.status != ConnStatus.OK or bool(self._poller.poll(0))

    def _said(self, sent: Sequence[Sent]) -> list[PGresult]:
        if self.prepared is None:
            return self._answers(sent)
        for query, _ in sent:
            if self.prepared.is_due(query):
                self._keep(self.prepared, query)
        results = self._answers(sent)
        for place, result in enumerate(results):
            if result.status not in _WELL and _state(result) == _UNKNOWN_NAME:
                self.prepared.give_up()
                return [*results[:place], *self._answers(sent[place:])]
        return results

    def _answers(self, sent: Sequence[Sent]) -> list[PGresult]:
        if len(sent) > 1 and capabilities.has_pipeline():
            return self._all_at_once(sent)
        return [self._one(query, values) for query, values in sent]

    def _keep(self, kept: PreparedStatements, query: bytes) -> None:
        name = b"stem_" + sha256(query).hexdigest()[:32].encode()
        self._pgconn.send_prepare(name, query)
        answer = self._answer()
        if answer.status == ExecStatus.COMMAND_OK or _state(answer) == _KNOWN_NAME:
            kept.names[query] = name
        else:
            kept.give_up()

    def _one(self, query: bytes, values: list[bytes | None]) -> PGresult:
        self._query(query, values)
        return self._answer()

    def _query(self, query: bytes, values: list[bytes | None]) -> None:
        name = None if self.prepared is None else self.prepared.names.get(query)
        if name is None:
            self._pgconn.send_query_params(query, values)
        else:
            self._pgconn.send_query_prepared(name, values)

    def _answer(self) -> PGresult:
        """The last result: after a statement that succeeded the commit may yet fail."""
        self._send()
        answer = self._expected()
        while (more := self._next()) is not None:
            answer = more
        return answer

    def _all_at_once(self, sent: Sequence[Sent]) -> list[PGresult]:
        pgconn = self._pgconn
        pgconn.enter_pipeline_mode()
        for query, values in sent:
            self._query(query, values)
            pgconn.pipeline_sync()
        self._send()
        results = [self._one_of_many() for _ in sent]
        pgconn.exit_pipeline_mode()
        return results

    def _one_of_many(self) -> PGresult:
        """As `_answer`, up to the synchronisation point behind it."""
        answer = self._expected()
        while (more := self._next() or self._expected()).status != ExecStatus.PIPELINE_SYNC:
            answer = more
        return answer

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
        """Send all, reading meanwhile: the server may already answer a large batch."""
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


def _texts(result: PGresult, encoding: str) -> Cells:
    columns = range(result.nfields)
    value = result.get_value
    return [
        tuple([None if (raw := value(row, column)) is None else raw.decode(encoding) for column in columns])
        for row in range(result.ntuples)
    ]


def _state(result: PGresult) -> bytes | None:
    return result.error_field(DiagnosticField.SQLSTATE)


def _encoded(values: Sequence[str | None], encoding: str) -> list[bytes | None]:
    encoded = [None if value is None else value.encode(encoding) for value in values]
    if b"\x00" in b"".join([value for value in encoded if value]):  # libpq would take it for the end
        raise DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return encoded
