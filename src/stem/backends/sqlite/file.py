"""One database file: its connections, and transactions with a deadline."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from stem.backends.sqlite.address import Address
from stem.backends.sqlite.refusals import is_busy, translated
from stem.core.errors import StoreRefused, StoreUnavailable

# SQLite's own waiting backs off to 100 ms; short rounds of it, repeated until the deadline, stay below 20.
_BUSY_MILLISECONDS = 20
_CACHE_KIB = 16 * 1024
_CHECKPOINT_PAGES = 4000


class File:
    """Connections are lent to one thread at a time. Safe to share between threads; a forked child gets its own."""

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        self.path = address.path
        self.is_closed = False
        self._synchronous = address.synchronous
        self._timeout_seconds = timeout_seconds
        self._identity: tuple[int, int] | None = None
        self._begin_anew()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One snapshot; never blocked by a writer."""
        with translated(self.path), self._lent() as connection:
            try:
                self._until_free(self._deadline(), lambda: self._open_snapshot(connection))
                yield connection
            finally:
                connection.rollback()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, all or nothing. Threads of this process queue up here, so that SQLite need not make them."""
        end = self._deadline()
        with translated(self.path), self._lent() as connection, self._turn():
            try:
                self._until_free(end, lambda: connection.execute("BEGIN IMMEDIATE"))
                yield connection
                self._until_free(self._deadline(), lambda: connection.execute("COMMIT"))
            except BaseException:
                connection.rollback()
                raise

    @contextmanager
    def bare(self) -> Iterator[sqlite3.Connection]:
        """A connection outside any transaction."""
        with translated(self.path), self._lent() as connection:
            yield connection

    def pin(self) -> None:
        """From now on the file at this path must stay the one it is."""
        self._identity = _identity(self.path)

    def close(self) -> None:
        """Those lent out are closed when they come back."""
        self.is_closed = True
        while self._idle:
            self._idle.pop().close()

    def _begin_anew(self) -> None:
        self._pid = os.getpid()
        self._idle: list[sqlite3.Connection] = []
        self._writer = Lock()

    @contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        if self._pid != os.getpid():
            self._inherited = self._idle  # never closed here: they are the parent's
            self._begin_anew()
        if self.is_closed:
            raise StoreUnavailable(f"The store at {self.path} has been closed; connect to it again.")
        if self._identity is not None and _identity(self.path) != self._identity:
            # SQLite would go on writing to the old file, and nobody would ever read it.
            raise StoreRefused(f"{self.path} was moved or deleted while it was open; put it back, or connect again.")
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._opened()
        try:
            yield connection
        finally:
            self._idle.append(connection)
            if self.is_closed:
                self.close()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._writer.acquire(timeout=self._timeout_seconds):
            raise StoreUnavailable(f"{self.path} stayed busy with other threads past the deadline; write less at once.")
        try:
            yield
        finally:
            self._writer.release()

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout_seconds

    def _until_free(self, end: float, attempt: Callable[[], object]) -> None:
        while True:
            try:
                attempt()
                return
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() >= end:
                    raise

    def _open_snapshot(self, connection: sqlite3.Connection) -> None:
        if not connection.in_transaction:
            connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # the lock is taken by the first read

    def _opened(self) -> sqlite3.Connection:
        # Others may be switching the journal or recovering it just now: opening waits for them as long as it may.
        connection = sqlite3.connect(
            self.path,
            timeout=self._timeout_seconds,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            for pragma in (
                f"synchronous = {self._synchronous}",
                f"cache_size = -{_CACHE_KIB}",
                f"wal_autocheckpoint = {_CHECKPOINT_PAGES}",
                "secure_delete = OFF",
                "temp_store = MEMORY",
                f"busy_timeout = {_BUSY_MILLISECONDS}",
            ):
                connection.execute(f"PRAGMA {pragma}").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection


def check_place(address: Address) -> None:
    """Refuse what SQLite would stumble over or overwrite, before anything is touched."""
    path = address.path
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # told below, or by SQLite
    except OSError as error:
        raise StoreRefused(f"{path} cannot be a file ({error.strerror}); choose another path.") from error
    if path.is_dir():
        raise StoreRefused(f"{path} is a directory; name a file in it, as in sqlite:///{path}/stem.db.")
    if not path.parent.is_dir():
        raise StoreRefused(f"{path} cannot be made because {path.parent} is no directory; create it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise StoreRefused(f"{path} cannot be used because {path.parent} is not writable; SQLite keeps its log there.")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise StoreRefused(f"{path} may not be read and written by this process; give it permission.")
    # Only SQLite itself opens the file: closing a second handle would drop the locks that this process may hold on it.


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return (status.st_dev, status.st_ino)
