"""Call one Postgres server: pooled connections, a deadline for each call, translated errors, safe to fork."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg.pq.abc import PGconn

from stem.backends.postgres.connection.address import Address
from stem.backends.postgres.connection.deadline_connection import DeadlineConnection, Row
from stem.backends.postgres.connection.errors import DeadlinePassed, translated, unstorable
from stem.backends.postgres.connection.pool import PostgresPool
from stem.backends.postgres.connection.pq_exec import Cells, Statement
from stem.backends.postgres.statements import identifier
from stem.core.errors import StemError, StoreUnavailable

T = TypeVar("T")

_TRIES = 5  # of a statement that lost a deadlock or a serialization conflict
_APART_SECONDS = 0.05  # so that two that got in each other's way do not meet again


class PostgresClient:
    """Executes the statements of a store. Each is a transaction of its own unless `transaction` is used; nothing has to survive
    on a connection, so a transaction-mode pooler may be in between."""

    def __init__(self, address: Address, timeout_seconds: float, pool_size: int = 8) -> None:
        self.address = address
        self.timeout_seconds = timeout_seconds
        self._pool = PostgresPool(self._connected, pool_size)

    @property
    def is_closed(self) -> bool:
        return self._pool.is_closed

    def rows(self, query: str | bytes, values: Any = None, *, timeout_seconds: float | None = None) -> list[Row]:
        """Execute one statement as one transaction; what it returns. Raises StoreUnavailable, StoreRefused, UsageError."""
        return self._tried(lambda conn: _fetched(conn, query, values), timeout_seconds)

    def cells(self, asked: Statement, then: Statement | None = None, *, timeout_seconds: float | None = None) -> Cells:
        """Execute a statement as one transaction and return its rows as texts. `then` is a transaction of its own, sent in the
        same round trip."""
        return self._tried(lambda conn: conn.pq.execute(conn.deadline, asked, then), timeout_seconds)

    def transaction(self, work: Callable[[DeadlineConnection], T]) -> T:
        """Do some work in one transaction. It is repeated after a deadlock."""

        def inside(conn: DeadlineConnection) -> T:
            with conn.transaction():
                return work(conn)

        return self._tried(inside, None)

    def dedicated(self) -> DeadlineConnection:
        """Open a connection outside of the pool, for the caller to close. Raises StoreUnavailable, StoreRefused."""
        try:
            return self._connected(self.timeout_seconds)
        except psycopg.Error as error:
            raise self.translated(error) from error

    @contextmanager
    def listening(self, channel: str) -> Iterator[PGconn]:
        """A connection of its own that LISTENs to the channel. Raises StoreUnavailable, StoreRefused, and the driver's errors
        once it is open."""
        conn = self.dedicated()
        try:
            conn.execute(f"LISTEN {identifier(channel)}".encode())
            yield conn.pgconn
        finally:
            conn.close()

    def translated(self, error: psycopg.Error) -> StemError:
        return translated(error, self.address.name, self.timeout_seconds)

    def close(self) -> None:
        self._pool.close()

    def _tried(self, work: Callable[[DeadlineConnection], T], timeout_seconds: float | None) -> T:
        deadline = monotonic() + min(self.timeout_seconds, timeout_seconds or self.timeout_seconds)
        for tries_left in reversed(range(_TRIES)):
            try:
                return self._done(work, deadline)
            except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure) as error:
                if tries_left == 0 or monotonic() >= deadline:
                    raise self.translated(error) from error
                time.sleep(random.uniform(0, _APART_SECONDS))  # noqa: S311 - nothing secret
            except psycopg.Error as error:
                raise self.translated(error) from error
            except UnicodeEncodeError as error:
                raise unstorable(error) from error
        raise AssertionError("unreachable")

    def _done(self, work: Callable[[DeadlineConnection], T], deadline: float) -> T:
        if self.is_closed:
            raise StoreUnavailable(f"The store {self.address.name} was closed; connect again.")
        conn = self._pool.take(deadline)
        conn.deadline = deadline
        try:
            found = work(conn)
        except DeadlinePassed:
            threading.Thread(target=_give_up, args=(conn, self._pool), name="stem-postgres-cancel", daemon=True).start()
            raise
        except BaseException:
            self._pool.give(conn)
            raise
        self._pool.give(conn)
        return found

    def _connected(self, seconds: float) -> DeadlineConnection:
        """Connect in a thread, because libpq takes at least two seconds to give up."""
        made: Future[DeadlineConnection] = Future()
        threading.Thread(target=self._connect, args=(made,), name="stem-postgres-connect", daemon=True).start()
        try:
            return made.result(max(0.0, seconds))
        except TimeoutError:
            made.add_done_callback(_close_unwanted)
            raise DeadlinePassed("no connection by the deadline") from None

    def _connect(self, made: "Future[DeadlineConnection]") -> None:
        try:
            made.set_result(DeadlineConnection.connect(self.address.conninfo, autocommit=True, prepare_threshold=None))
        except BaseException as error:  # noqa: BLE001 - the caller's
            made.set_exception(error)


def _fetched(conn: DeadlineConnection, query: str | bytes, values: Any) -> list[Row]:
    cursor = conn.execute(query, values)
    return cursor.fetchall() if cursor.description is not None else []


def _close_unwanted(made: "Future[DeadlineConnection]") -> None:
    if made.exception() is None:
        made.result().close()


def _give_up(conn: DeadlineConnection, pool: PostgresPool) -> None:
    """Cancel the statement on the server, then close. Older libraries would block the process doing so."""
    try:
        if psycopg.capabilities.has_cancel_safe():
            conn.cancel_safe(timeout=1.0)
    except psycopg.Error:
        pass  # the server is gone or frozen, and hears nothing
    finally:
        pool.drop(conn)
