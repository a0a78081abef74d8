"""Connections to one server: pooled, each call with a deadline, errors translated, safe to fork."""

import logging
import os
import random
import select
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg.pq.abc import PGconn
from psycopg_pool import ConnectionPool, PoolTimeout

from stem.backends.postgres.address import Address
from stem.backends.postgres.exchange import Cells, Statement, exchange
from stem.backends.postgres.refusals import DeadlinePassed, translated, unstorable
from stem.backends.postgres.speaking import Row, Speaking
from stem.backends.postgres.statements import identifier
from stem.core.errors import StemError, StoreUnavailable

T = TypeVar("T")

_TRIES = 5  # of a statement that lost a deadlock or a serialization conflict
_APART_SECONDS = 0.05  # so that two that got in each other's way do not meet again
_CHECK_SECONDS = 0.05  # how finely deadlines are kept
_inherited: list[ConnectionPool[Any]] = []  # a parent's pools: to close them here would end the parent's sessions

# The pool tells of its reconnections in the background; whoever asks for a connection is told by StoreUnavailable.
logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)


class Link(Speaking):
    """What all seams of a store speak through. Each statement is a transaction of its own unless `transaction` is used;
    nothing is expected to survive on a connection, so a transaction-mode pooler may stand in between."""

    def __init__(self, address: Address, timeout_seconds: float, pool_size: int = 8) -> None:
        self.address = address
        self.timeout_seconds = timeout_seconds
        self.is_closed = False
        self._pool_size = pool_size
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._pool: ConnectionPool[Timed] | None = None

    def rows(self, query: str | bytes, values: Any = None, *, timeout_seconds: float | None = None) -> list[Row]:
        """Execute one statement as one transaction; what it returns."""
        return self._tried(lambda conn: _fetched(conn, query, values), timeout_seconds)

    def cells(self, asked: Statement, also: Sequence[Statement] = (), *, timeout_seconds: float | None = None) -> Cells:
        """Execute a statement as one transaction; what it returns, as texts. Others that come along are each one of their own,
        in the same round trip; nobody is told if they fail."""
        return self._tried(
            lambda conn: exchange(conn.pgconn, conn.info.encoding, conn.deadline, asked, also), timeout_seconds
        )

    def transaction(self, work: "Callable[[Timed], T]") -> T:
        """Do some work in one transaction. It may be done over after a deadlock."""

        def inside(conn: Timed) -> T:
            with conn.transaction():
                return work(conn)

        return self._tried(inside, None)

    def dedicated(self) -> "Timed":
        """A connection outside of the pool, for the caller to close. Raises StoreUnavailable or StoreRefused."""
        try:
            return Timed.connect(self.address.conninfo, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            raise self.translated(error) from error

    @contextmanager
    def listening(self, channel: str) -> Iterator[PGconn]:
        conn = self.dedicated()
        try:
            conn.execute(f"LISTEN {identifier(channel)}".encode())
            yield conn.pgconn
        finally:
            conn.close()

    def translated(self, error: psycopg.Error) -> StemError:
        if isinstance(error, PoolTimeout):
            error = DeadlinePassed("no connection by the deadline")
        return translated(error, self.address.name, self.timeout_seconds)

    def close(self) -> None:
        self.is_closed = True
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.close(timeout=1)

    def _tried(self, work: "Callable[[Timed], T]", timeout_seconds: float | None) -> T:
        deadline = monotonic() + min(self.timeout_seconds, timeout_seconds or self.timeout_seconds)
        for tries_left in reversed(range(_TRIES)):
            try:
                with self._connection(deadline) as conn:
                    return work(conn)
            except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure) as error:
                if tries_left == 0 or monotonic() >= deadline:
                    raise self.translated(error) from error
                time.sleep(random.uniform(0, _APART_SECONDS))  # noqa: S311 - nothing secret
            except psycopg.Error as error:
                raise self.translated(error) from error
            except UnicodeEncodeError as error:
                raise unstorable(error) from error
        raise AssertionError("unreachable")

    @contextmanager
    def _connection(self, deadline: float) -> "Iterator[Timed]":
        pool = self._opened()
        conn = pool.getconn(timeout=max(0.01, deadline - monotonic()))
        while _was_closed_by_server(conn):
            conn.close()
            pool.putconn(conn)
            conn = pool.getconn(timeout=max(0.01, deadline - monotonic()))
        conn.deadline = deadline
        try:
            yield conn
        except DeadlinePassed:
            threading.Thread(target=_give_up, args=(conn, pool), name="stem-postgres-cancel", daemon=True).start()
            raise
        except BaseException:
            pool.putconn(conn)
            raise
        else:
            pool.putconn(conn)

    def _opened(self) -> "ConnectionPool[Timed]":
        if self._pool is not None and self._pid == os.getpid():
            return self._pool
        if self.is_closed:
            raise StoreUnavailable(f"The store {self.address.name} was closed; connect again.")
        with self._lock:
            if self._pid != os.getpid():
                if self._pool is not None:
                    _inherited.append(self._pool)
                self._pool, self._pid = None, os.getpid()
            if self._pool is None:
                self._pool = ConnectionPool(
                    self.address.conninfo,
                    connection_class=Timed,
                    kwargs={"autocommit": True, "prepare_threshold": None},
                    min_size=0,
                    max_size=self._pool_size,
                    max_idle=60,
                    num_workers=1,
                    reconnect_timeout=self.timeout_seconds,
                    open=False,
                )
                self._pool.open()
            return self._pool


class Timed(psycopg.Connection[Row]):
    """A connection whose calls end at a deadline, also if the server is frozen and the network says nothing."""

    deadline: float | None = None

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        if self.deadline is None:
            return super().wait(gen, *args, **kwargs)
        return super().wait(self._until_deadline(gen), interval=_CHECK_SECONDS)

    def _until_deadline(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and self.deadline is not None and monotonic() >= self.deadline:
                    raise DeadlinePassed("no answer by the deadline")
                wanted = gen.send(ready)
        except StopIteration as end:
            value: T = end.value
            return value


def _fetched(conn: Timed, query: str | bytes, values: Any) -> list[Row]:
    cursor = conn.execute(query, values)
    return cursor.fetchall() if cursor.description is not None else []


def _was_closed_by_server(conn: Timed) -> bool:
    """An idle connection has nothing to say; if its socket does, it has ended (a restart, an administrator)."""
    if conn.closed:
        return True
    poller = select.poll()
    poller.register(conn.pgconn.socket, select.POLLIN)
    return bool(poller.poll(0))


def _give_up(conn: Timed, pool: "ConnectionPool[Timed]") -> None:
    """Tell the server to stop what it does for nobody, then close. Older libraries would block the process doing so."""
    try:
        if psycopg.capabilities.has_cancel_safe():
            conn.cancel_safe(timeout=1.0)
    except psycopg.Error:
        pass  # the server is gone or frozen, and hears nothing
    finally:
        conn.close()
        pool.putconn(conn)
