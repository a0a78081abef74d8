"""The connections to one file: lent to one thread at a time, and none of them open at the moment of a fork.

SQLite keeps its table of locks in the process. A forked child would inherit the table without the locks: it would write
without holding any, and the next process to close the file would throw away the log that the child still writes to.
"""

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Condition
from weakref import WeakSet

from stem.core.errors import StoreRefused, StoreUnavailable

Identity = tuple[int, int]

_FORK_SECONDS = 2.0  # so long a fork waits for what is lent
_HANDLES = "/dev/fd"
_MANY_HANDLES = 1024  # looked at one by one where the system has no list of them


class SqlitePool:
    """Opens a connection when all others are lent. A forked child begins with an empty one."""

    def __init__(self, path: Path, open_one: Callable[[], sqlite3.Connection], timeout_seconds: float) -> None:
        self.is_closed = False
        self._path = path
        self._open_one = open_one
        self._timeout_seconds = timeout_seconds
        self._begin_anew()
        with _forks.door:
            _forks.pools.add(self)

    def take(self) -> sqlite3.Connection:
        """Raises StoreUnavailable once closed, StoreRefused in a child that was forked while the file was in use."""
        _forks.notice()
        refuse_inherited(self._path)
        with _forks.door:
            if _forks.under_way and not _forks.door.wait_for(lambda: not _forks.under_way, self._timeout_seconds):
                raise StoreUnavailable(f"{self._path} waited too long for a fork to end; find out what holds it up.")
            if self.is_closed:
                raise StoreUnavailable(f"The store at {self._path} has been closed; connect to it again.")
            self._lent += 1  # before it is open: a fork must wait for that too
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            try:
                connection = self._open_one()
            except BaseException:
                self._count_back()
                raise
            self._ours.add(connection)
        return connection

    def give_back(self, connection: sqlite3.Connection) -> None:
        """What was lent before a fork is left alone in the child: it is the parent's."""
        if not self.owns(connection):
            _left_alone.append(connection)
            return
        with _forks.door:
            try:
                if self.is_closed:
                    self._close(connection)
                else:
                    self._idle.append(connection)
            finally:
                self._count_back()

    def owns(self, connection: sqlite3.Connection) -> bool:
        """Whether this process opened it."""
        _forks.notice()
        return connection in self._ours

    @property
    def is_wanted_back(self) -> bool:
        """A fork waits: connections that are not in use should be returned."""
        return _forks.under_way > 0

    @property
    def is_lent(self) -> bool:
        return self._lent > 0

    def close(self) -> None:
        """Close the idle connections; those lent out are closed when they come back."""
        _forks.notice()
        with _forks.door:
            self.is_closed = True
        self.close_idle()

    def close_idle(self) -> None:
        with _forks.door:
            idle = self._idle.copy()
            self._idle.clear()
        for connection in idle:
            self._close(connection)

    def leave_behind(self) -> None:
        """In a forked child."""
        _left_alone.extend(self._ours)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._idle: list[sqlite3.Connection] = []
        self._ours: set[sqlite3.Connection] = set()
        self._lent = 0

    def _count_back(self) -> None:
        with _forks.door:
            self._lent -= 1
            if _forks.under_way:
                _forks.door.notify_all()

    def _close(self, connection: sqlite3.Connection) -> None:
        self._ours.discard(connection)
        connection.close()


class _Forks:
    """The door that every connection goes out by: shut while the process forks."""

    def __init__(self) -> None:
        self.pools: WeakSet[SqlitePool] = WeakSet()
        self.inherited: dict[Identity, list[int]] = {}
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.door = Condition()  # another thread may have held the old one at the fork
        self.under_way = 0  # two threads may fork at once
        self._pid = os.getpid()

    def before(self) -> None:
        self.notice()
        with self.door:
            self.under_way += 1
            pools = list(self.pools)
            self.door.wait_for(lambda: not any(pool.is_lent for pool in pools), _FORK_SECONDS)
        for pool in pools:
            with suppress(sqlite3.Error):  # what stays open the child will see, and refuse
                pool.close_idle()

    def after_in_parent(self) -> None:
        with self.door:
            self.under_way -= 1
            self.door.notify_all()

    def after_in_child(self) -> None:
        self._begin_anew()
        self.inherited = _open_files()
        for pool in list(self.pools):
            pool.leave_behind()

    def notice(self) -> None:
        """Some forks are made in C and tell nobody."""
        if self._pid != os.getpid():
            self.after_in_child()


def refuse_inherited(path: Path) -> None:
    """Refuse a file that this process inherited open from its parent, whichever module opened it there."""
    if not _forks.inherited:
        return
    identity = identify(path)
    if identity not in _forks.inherited:
        return
    if any(_open_file(handle) == identity for handle in _forks.inherited[identity]):
        raise StoreRefused(
            f"{path} was in use when this process was forked, and SQLite would lose what is written here; close every "
            "connection to it before forking and connect afterwards, or start processes with spawn."
        )
    _forks.inherited.pop(identity, None)  # closed since


def identify(path: Path) -> Identity | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return (status.st_dev, status.st_ino)


def _open_files() -> dict[Identity, list[int]]:
    try:
        handles = [int(name) for name in os.listdir(_HANDLES)]
    except OSError:
        handles = list(range(_MANY_HANDLES))
    found: dict[Identity, list[int]] = {}
    for handle in handles:
        identity = _open_file(handle)
        if identity is not None:
            found.setdefault(identity, []).append(handle)
    return found


def _open_file(handle: int) -> Identity | None:
    try:
        status = os.fstat(handle)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


# Dropping the last reference to a parent's connection would close it, and write to memory that the two share.
_left_alone: list[sqlite3.Connection] = []
_forks = _Forks()

if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(
        before=_forks.before, after_in_parent=_forks.after_in_parent, after_in_child=_forks.after_in_child
    )
