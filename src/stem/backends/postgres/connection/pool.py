"""A pool of connections, opened on demand. After a fork the child begins with none, and leaves its parent's alone."""

import os
import random
import time
from collections.abc import Callable
from threading import Condition
from time import monotonic

from psycopg import OperationalError
from psycopg.pq import TransactionStatus

from stem.backends.postgres.connection.deadline_connection import DeadlineConnection
from stem.backends.postgres.connection.errors import DeadlinePassed, is_passing

_MOST_IDLE_SECONDS = 60.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.5  # between two attempts to connect to a server that restarts
_inherited: list[DeadlineConnection] = []  # a parent's: to close them here would end the parent's sessions


class PostgresPool:
    def __init__(self, connect: Callable[[float], DeadlineConnection], size: int) -> None:
        """`connect` gets the seconds that it may take."""
        self._connect = connect
        self._size = size
        self._pid = os.getpid()
        self._changed = Condition()
        self._idle: list[tuple[float, DeadlineConnection]] = []  # since when; the one that was used last comes last
        self._made = 0  # idle or in use
        self.is_closed = False

    def take(self, deadline: float) -> DeadlineConnection:
        """Take a connection that works. Waits while all are in use or the server restarts. Raises the driver's errors."""
        self._own()
        with self._changed:
            if not self._idle and not self._changed.wait_for(
                lambda: self._idle or self._made < self._size, max(0.0, deadline - monotonic())
            ):
                raise DeadlinePassed("all connections are in use")
            while self._idle:
                _, conn = self._idle.pop()
                if not conn.pq.has_ended():
                    return conn
                conn.close()
                self._made -= 1
            self._made += 1
        try:
            return self._connected(deadline)
        except BaseException:
            self._forget()
            raise

    def give(self, conn: DeadlineConnection) -> None:
        """Give a connection back; it is closed if it cannot be used again."""
        if self._pid != os.getpid():
            return
        stale: list[DeadlineConnection] = []
        now = monotonic()
        with self._changed:
            # Asked under the lock: else it could be kept by a pool that was closed meanwhile, and never be.
            if self.is_closed or conn.pgconn.transaction_status != TransactionStatus.IDLE:
                stale.append(conn)
                self._made -= 1
            else:
                self._idle.append((now, conn))
            while self._idle and now - self._idle[0][0] > _MOST_IDLE_SECONDS:
                stale.append(self._idle.pop(0)[1])
                self._made -= 1
            self._changed.notify()
        for each in stale:
            each.close()

    def drop(self, conn: DeadlineConnection) -> None:
        conn.close()
        self._forget()

    def close(self) -> None:
        """Close the idle connections; those in use are closed when they are given back."""
        self._own()
        with self._changed:
            self.is_closed = True
            idle, self._idle = self._idle, []
            self._made -= len(idle)
        for _, conn in idle:
            conn.close()

    def _connected(self, deadline: float) -> DeadlineConnection:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return self._connect(deadline - monotonic())
            except OperationalError as error:
                if not is_passing(error) or monotonic() + pause >= deadline:
                    raise
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - nothing secret
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def _forget(self) -> None:
        with self._changed:
            self._made -= 1
            self._changed.notify()

    def _own(self) -> None:
        if self._pid != os.getpid():
            _inherited.extend(conn for _, conn in self._idle)
            self._pid, self._changed, self._idle, self._made = os.getpid(), Condition(), [], 0
