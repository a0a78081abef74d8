"""Translate SQLite's errors into Stem's, each with a remedy."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stem.core.errors import StemError, StoreRefused, StoreUnavailable

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_REFUSED = {
    sqlite3.SQLITE_READONLY: "is read-only for this process; give it write permission on the file and its directory",
    sqlite3.SQLITE_PERM: "may not be opened by this process; give it read and write permission",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that its directory exists and that this process may write there",
    sqlite3.SQLITE_FULL: "cannot grow because its disk is full; free some space and try again",
    sqlite3.SQLITE_NOTADB: "is not an SQLite database; choose another path, it was left untouched",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore it from a backup, or recover it with the sqlite3 command .recover",
    sqlite3.SQLITE_TOOBIG: "cannot hold a value of this size; store the data elsewhere and pass a reference",
}


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn an error that SQLite answers with into one of ours; one that is our own mistake stays as it is."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        meaning = _meaning(path, error)
        if meaning is None:
            raise
        raise meaning from error


def is_busy(error: sqlite3.Error) -> bool:
    return _code(error) in _BUSY


def _meaning(path: Path, error: sqlite3.DatabaseError) -> StemError | None:
    code, exact = _code(error), getattr(error, "sqlite_errorcode", 0)
    if exact == sqlite3.SQLITE_BUSY_SNAPSHOT:
        return StoreUnavailable(
            f"{path} was changed by another writer after connection= had read it; begin with BEGIN IMMEDIATE."
        )
    if code in _BUSY:
        return StoreUnavailable(f"{path} stayed locked by another writer past the deadline; find out who holds it.")
    if code == sqlite3.SQLITE_IOERR:
        return StoreUnavailable(f"{path} could not be read or written ({error}); check its disk.")
    if code in _REFUSED:
        return StoreRefused(f"{path} {_REFUSED[code]}.")
    return None


def _code(error: sqlite3.Error) -> int:
    """The primary code; the extended ones only say where it happened."""
    code: int = getattr(error, "sqlite_errorcode", 0) or 0
    return code & 0xFF
