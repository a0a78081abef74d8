"""Open one database file: its connections, and transactions with a deadline."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock, Thread

from stem.backends.sqlite.connection.address import SqliteAddress
from stem.backends.sqlite.connection.errors import is_busy, translated
from stem.backends.sqlite.connection.pool import Identity, SqlitePool, identify
from stem.core.errors import StoreRefused, StoreUnavailable
from stem.runtime.files import make_file

# SQLite's own waiting backs off to 100 ms; short rounds of it, repeated until the deadline, stay below 20.
_BUSY_MILLISECONDS = 20
_CACHE_KIB = 8 * 1024
_CHECKPOINT_PAGES = 4000
_LOG_BYTES = 64 * 1024 * 1024  # a log that a long reader let grow is cut back to this
_LARGE_CACHE_KIB = 64 * 1024  # for much at once: what does not fit is written early, page by page, and often twice
_ASIDE_BYTES = 256 * 1024 * 1024  # a log of this size is copied in about a second, which a fork can wait for
_PRIVATE = 0o600  # payloads and results are nobody else's; SQLite gives its log the same mode
_OLDEST_SQLITE = (3, 35, 0)  # the first that answers RETURNING


class Database:
    """Safe to share between threads, and with a forked child, which opens connections of its own."""

    def __init__(self, address: SqliteAddress, timeout_seconds: float) -> None:
        self.path = address.path
        self._traced = (str(address.path), f"{address.path}-wal")
        self._timeout_seconds = timeout_seconds
        self._identity: Identity | None = None
        self._pool = SqlitePool(self.path, partial(_opened, address, timeout_seconds), timeout_seconds)
        self._begin_anew()

    @property
    def is_closed(self) -> bool:
        return self._pool.is_closed

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One snapshot; never blocked by a writer."""
        with translated(self.path):
            connection = self._begun(self._open_snapshot)
            try:
                yield connection
            finally:
                self._end(connection)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, all or nothing. Threads of this process queue up here, so that SQLite need not make them."""
        # The turn comes first: a thread that waits for it holds no connection, so it delays no fork.
        with translated(self.path), self._turn():
            connection = self._begun(_begin_immediate)
            try:
                yield connection
                self._commit(connection)
            finally:
                self._end(connection)

    @contextmanager
    def writing_from(self, other: Path) -> Iterator[sqlite3.Connection]:
        """As `writing`, of much at once, with another database to read from, whose tables are `beside.` this one's. What
        the log got is copied into the file afterwards, by a thread: who wrote need not wait for it."""
        with translated(self.path), self._turn():
            connection = self._taken()
            try:
                with _set_up_for_much(connection, other):
                    self._until_free(self._deadline(), lambda: _begin_immediate(connection))
                    yield connection
                    self._commit(connection)
            except BaseException:
                self._pool.give_back(connection)
                raise
            self._copy_log_aside(connection)

    @contextmanager
    def bare(self) -> Iterator[sqlite3.Connection]:
        """A connection outside any transaction."""
        with translated(self.path):
            connection = self._taken()
            try:
                yield connection
            finally:
                self._pool.give_back(connection)

    def traces(self) -> tuple[float, tuple[object, ...]]:
        """When the file or its log was last written to, and what tells one such moment from another. Opens nothing."""
        found = [_trace(path) for path in self._traced]
        return max(at for at, _ in found), tuple(found)

    def pin(self) -> None:
        """From now on the file at this path must stay the one it is."""
        self._identity = identify(self.path)

    def close(self) -> None:
        """Close the idle connections; those lent out are closed when they come back."""
        self._pool.close()

    def _begin_anew(self) -> None:
        self._pid = os.getpid()
        self._writer = Lock()

    def _taken(self) -> sqlite3.Connection:
        if not self.is_closed and self._identity is not None and identify(self.path) != self._identity:
            # SQLite would go on writing to the old file, and nobody would ever read it.
            raise StoreRefused(f"{self.path} was moved or deleted while it was open; put it back, or connect again.")
        return self._pool.take()

    def _begun(self, begin: Callable[[sqlite3.Connection], object]) -> sqlite3.Connection:
        """A connection in a transaction. While others keep the file locked, a fork can have the connection back."""
        end = self._deadline()
        while True:
            connection = self._taken()
            try:
                if self._until_free(end, lambda: begin(connection), until=lambda: self._pool.is_wanted_back):  # noqa: B023
                    return connection
            except BaseException:
                self._end(connection)
                raise
            self._end(connection)

    def _commit(self, connection: sqlite3.Connection) -> None:
        if not self._pool.owns(connection):
            raise StoreRefused(
                f"{self.path} was being written when this process was forked; the parent goes on with it."
            )
        self._until_free(self._deadline(), lambda: connection.execute("COMMIT"))

    def _end(self, connection: sqlite3.Connection) -> None:
        """Back to the others, rolled back if anything is left to."""
        try:
            if self._pool.owns(connection):
                connection.rollback()
        finally:
            self._pool.give_back(connection)

    def _copy_log_aside(self, connection: sqlite3.Connection) -> None:
        """With a connection that is lent meanwhile: so closing the store waits for nothing, and a fork waits for this."""
        if _trace(self._traced[1])[1][1] <= _ASIDE_BYTES:
            with suppress(RuntimeError):  # the interpreter is going down, and starts no more threads
                Thread(target=self._copy_log, args=(connection,), name="stem-sqlite-log").start()
                return
        self._copy_log(connection)

    def _copy_log(self, connection: sqlite3.Connection) -> None:
        try:
            with suppress(sqlite3.Error):  # the next writer tries again
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        finally:
            self._pool.give_back(connection)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._pid != os.getpid():
            self._begin_anew()  # a thread of the parent may hold the turn, and it is not here to give it up
        writer = self._writer
        if not writer.acquire(timeout=self._timeout_seconds):
            raise StoreUnavailable(f"{self.path} stayed busy with other threads past the deadline; write less at once.")
        try:
            yield
        finally:
            writer.release()

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout_seconds

    def _until_free(self, end: float, attempt: Callable[[], object], until: Callable[[], bool] = lambda: False) -> bool:
        """True once done; False if asked to let go."""
        while True:
            try:
                attempt()
                return True
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() >= end:
                    raise
            if until():
                return False

    def _open_snapshot(self, connection: sqlite3.Connection) -> None:
        if not connection.in_transaction:
            connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # the lock is taken by the first read


def check_library() -> None:
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        oldest = ".".join(map(str, _OLDEST_SQLITE))
        raise StoreRefused(f"Python's SQLite is {sqlite3.sqlite_version}, and Stem needs {oldest}; use a newer Python.")


def check_place(address: SqliteAddress) -> None:
    """Refuse what SQLite would stumble over or overwrite, before anything is touched."""
    path = address.path
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # told below, or by SQLite
    except OSError as error:
        raise StoreRefused(f"{path} cannot be a file ({error.strerror}); choose another path.") from error
    if path.is_symlink() and not path.exists():
        raise StoreRefused(f"{path} is a link to a file that does not exist; remove the link, or name the file itself.")
    if path.is_dir():
        raise StoreRefused(f"{path} is a directory; name a file in it, as in sqlite:///{path}/stem.db.")
    if not path.parent.is_dir():
        raise StoreRefused(f"{path} cannot be made because {path.parent} is no directory; create it first.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise StoreRefused(f"{path} cannot be used because {path.parent} is not writable; SQLite keeps its log there.")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise StoreRefused(f"{path} may not be read and written by this process; give it permission.")
    # Only SQLite itself opens the file: closing a second handle would drop the locks that this process may hold on it.


def make_private(path: Path) -> None:
    """Make the file, for its owner alone, if there is none: SQLite would let everybody read it."""
    try:
        make_file(path, _PRIVATE)
    except OSError as error:
        raise StoreRefused(f"{path} cannot be made ({error.strerror}); choose another path.") from error


def _opened(address: SqliteAddress, timeout_seconds: float) -> sqlite3.Connection:
    # Others may be switching the journal or recovering it just now: opening waits for them as long as it may.
    connection = sqlite3.connect(
        address.path,
        timeout=timeout_seconds,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        _configure(
            connection,
            f"synchronous = {address.synchronous}",
            f"cache_size = -{_CACHE_KIB}",
            f"wal_autocheckpoint = {_CHECKPOINT_PAGES}",
            f"journal_size_limit = {_LOG_BYTES}",
            "secure_delete = OFF",
            "temp_store = MEMORY",
            f"busy_timeout = {_BUSY_MILLISECONDS}",
        )
    except BaseException:
        connection.close()
        raise
    return connection


def _begin_immediate(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")


@contextmanager
def _set_up_for_much(connection: sqlite3.Connection, other: Path) -> Iterator[None]:
    connection.execute("ATTACH DATABASE ? AS beside", (str(other),))
    try:
        _configure(connection, f"main.cache_size = -{_LARGE_CACHE_KIB}", "wal_autocheckpoint = 0")
        yield
    finally:
        connection.rollback()
        _configure(connection, f"main.cache_size = -{_CACHE_KIB}", f"wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute("DETACH DATABASE beside")


def _configure(connection: sqlite3.Connection, *pragmas: str) -> None:
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _trace(path: str) -> tuple[float, tuple[int, int, int]]:
    try:
        status = os.stat(path)
    except OSError:
        return (0.0, (0, 0, 0))
    return (status.st_mtime, (status.st_mtime_ns, status.st_size, status.st_ino))
