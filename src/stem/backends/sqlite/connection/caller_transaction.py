"""Find the sqlite3 connection behind the caller's database library, and check that it fits."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stem.backends.sqlite.connection.pool import refuse_inherited
from stem.core.errors import UsageError


@contextmanager
def joined(connection: object, path: Path) -> Iterator[sqlite3.Cursor]:
    """A cursor in the caller's own transaction, which stays open and the caller's. Nothing of the connection is changed."""
    refuse_inherited(path)
    driver = _driver_connection(connection)
    try:
        _check_transaction(driver)
        cursor = driver.cursor(sqlite3.Cursor)
    except sqlite3.ProgrammingError as error:
        raise UsageError(f"connection= cannot be used ({error}); pass one that is open in this thread.") from error
    text_factory, driver.text_factory = driver.text_factory, str
    cursor.row_factory = None
    try:
        _check_same_file(cursor, path)
        with _all_or_nothing(driver, cursor):
            yield cursor
    finally:
        cursor.close()
        driver.text_factory = text_factory


@contextmanager
def _all_or_nothing(driver: sqlite3.Connection, cursor: sqlite3.Cursor) -> Iterator[None]:
    """What fails half-way leaves the caller's transaction as it was."""
    begun_here = not driver.in_transaction
    if begun_here:
        cursor.execute("BEGIN")
    cursor.execute("SAVEPOINT stem_push")
    try:
        yield
        cursor.execute("RELEASE stem_push")
    except BaseException:
        if begun_here:
            driver.rollback()
        elif driver.in_transaction:  # SQLite itself may have rolled all back, on a full disk say
            cursor.execute("ROLLBACK TO stem_push")
            cursor.execute("RELEASE stem_push")
        raise


def _driver_connection(connection: object) -> sqlite3.Connection:
    """sqlite3's own; SQLAlchemy's Session and Connection; Django's connection."""
    seen: Any = connection
    for _ in range(4):  # Session, Connection, pooled connection, driver connection
        if isinstance(seen, sqlite3.Connection):
            return seen
        if hasattr(seen, "ensure_connection"):  # Django opens when first used
            seen.ensure_connection()
        # SQLAlchemy's commit does nothing unless it knows of a transaction; a statement of its own would begin one.
        if hasattr(seen, "exec_driver_sql") and not seen.in_transaction():
            seen.begin()
        if getattr(seen, "driver_connection", None) is not None:
            seen = seen.driver_connection
            continue
        inner = getattr(seen, "connection", None)
        seen = inner() if callable(inner) and not isinstance(inner, sqlite3.Connection) else inner
    raise UsageError(
        f"connection= is of type {type(connection).__name__}, and an SQLite store joins sqlite3, SQLAlchemy and Django "
        "connections; pass one of these, or leave it out."
    )


def _check_transaction(driver: sqlite3.Connection) -> None:
    """Where sqlite3 opens transactions by itself, one may be opened here; where it does not, the caller has to."""
    mode = getattr(driver, "autocommit", None)  # Python 3.12 on: True, False, or -1 for what isolation_level says
    opens_by_itself = not mode if isinstance(mode, bool) else driver.isolation_level is not None
    if not driver.in_transaction and not opens_by_itself:
        raise UsageError("connection= has no open transaction; begin one first, or leave connection= out.")


def _check_same_file(cursor: sqlite3.Cursor, path: Path) -> None:
    names = [name for _, schema, name in cursor.execute("PRAGMA database_list").fetchall() if schema == "main"]
    theirs = names[0] if names else ""
    if not theirs or not os.path.samefile(theirs, path):
        raise UsageError(
            f"connection= is on {theirs or 'a database in memory'} and the broker on {path}; use the same file for both."
        )
