"""Create or migrate the tables, beside any others in the file, however many processes start at once."""

import random
import sqlite3
import time
from pathlib import Path

from stem.backends.sqlite.connection.database import Database
from stem.backends.sqlite.connection.errors import is_busy
from stem.backends.sqlite.statements import SQL, migrations
from stem.core.errors import StoreRefused


def prepare(database: Database, namespace: str, timeout_seconds: float) -> int:
    """Bring the file to this version's schema; returns the namespace's number. Writes nothing to a file that is not ours."""
    steps = migrations()
    with database.reading() as connection:
        version = _version(connection, database.path, latest=max(steps))
    if version == 0:
        with database.bare() as connection:
            _use_write_ahead_log(connection, timeout_seconds)
    if version < max(steps):
        with database.writing() as connection:
            _migrate(connection, database.path, steps)
    return _namespace(database, namespace)


def _version(connection: sqlite3.Connection, path: Path, *, latest: int) -> int:
    """0 for a file without our tables."""
    tables = {name for (name,) in connection.execute(SQL["meta_tables"])}
    if not tables:
        return 0
    version = _recorded_version(connection) if "stem_meta" in tables else None
    if version is None:
        raise StoreRefused(f"{path} has stem_ tables that are not Stem's; choose another path, it was left untouched.")
    if version > latest:
        raise StoreRefused(
            f"{path} was written by a newer Stem (schema {version}, this one knows {latest}); upgrade stem-tasks."
        )
    return version


def _recorded_version(connection: sqlite3.Connection) -> int | None:
    try:
        row = connection.execute(SQL["meta_get"], ("schema_version",)).fetchone()
    except sqlite3.OperationalError as error:
        if is_busy(error):
            raise
        return None  # a table of that name with other columns
    return int(row[0]) if row and str(row[0]).isdigit() else None


def _use_write_ahead_log(connection: sqlite3.Connection, timeout_seconds: float) -> None:
    """The switch needs the file for itself a moment, and SQLite does not wait for that by itself."""
    end = time.monotonic() + timeout_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= end:
                raise
            time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - so that processes that start together come apart


def _migrate(connection: sqlite3.Connection, path: Path, steps: dict[int, list[str]]) -> None:
    version = _version(connection, path, latest=max(steps))  # again: another process may have been first
    connection.execute(SQL["meta_create"])
    for number, statements in steps.items():
        if number > version:
            for statement in statements:
                connection.execute(statement)
            connection.execute(SQL["meta_put"], ("schema_version", str(number)))


def _namespace(database: Database, name: str) -> int:
    with database.reading() as connection:
        row = connection.execute(SQL["namespace_get"], (name,)).fetchone()
    if row is None:
        with database.writing() as connection:
            connection.execute(SQL["namespace_put"], (name,))
            row = connection.execute(SQL["namespace_get"], (name,)).fetchone()
    number: int = row[0]
    return number
