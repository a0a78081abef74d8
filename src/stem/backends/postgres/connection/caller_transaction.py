"""Write inside the caller's own open transaction, whatever wraps its connection."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import count
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from stem.backends.postgres.codec.push_columns import Run
from stem.backends.postgres.connection.address import Address
from stem.backends.postgres.connection.errors import translated, unstorable
from stem.contracts.async_connection import AsyncConnection
from stem.core.errors import UsageError

_IN_TRANSACTION = 2  # as libpq counts: idle, active, in transaction, in error
_MISSING = {"3F000", "42883", "42P01"}


@contextmanager
def joined(connection: object, address: Address) -> Iterator[Run]:
    """A way to execute statements in that transaction: never committed here, gone if the caller rolls back.

    Takes a psycopg, psycopg2 or asyncpg connection, a SQLAlchemy Connection or Session over these, psycopg's and SQLAlchemy's
    async ones, or Django's connection. It must be to the store's own database: another one with a Stem schema of that name
    would keep the tasks for its own workers. Waiting workers are woken by NOTIFY, so the transaction cannot be prepared for a
    two-phase commit.
    """
    driver = _async_driver(connection) if isinstance(connection, AsyncConnection) else _driver_connection(connection)
    if isinstance(connection, AsyncConnection) and _is_asyncpg(driver):
        _check_asyncpg(driver)
        run = _asyncpg_run(driver, connection)
    elif isinstance(connection, AsyncConnection):
        _check_psycopg(driver)
        run = _async_psycopg_run(driver, connection)
    elif isinstance(driver, psycopg.Connection):
        _check_psycopg(driver)
        run = _psycopg_run(driver)
    elif _is_psycopg2(driver):
        _check_psycopg2(driver)
        run = _psycopg2_run(driver)
    else:
        raise UsageError(
            f"connection= got an object of type {type(connection).__name__}; pass a psycopg connection, "
            "a SQLAlchemy Connection or Session over psycopg, or django.db.connection."
        )
    try:
        _check_isolation(run)
        yield run
    except Exception as error:
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        if state in _MISSING:
            raise UsageError(
                f"The database of connection= has no Stem schema {address.schema!r}; pass a connection to the store's own "
                "database, or connect Stem to that one."
            ) from error
        if isinstance(error, UnicodeEncodeError):
            raise unstorable(error) from error
        if isinstance(error, psycopg.Error):
            raise translated(error, "connection=", 0.0) from error
        raise


def _check_isolation(run: Run) -> None:
    """A push looks twice for what others have committed, the second time after it has locked the id."""
    ((isolation,),) = run("SHOW transaction_isolation", ())
    if isolation != "read committed":
        raise UsageError(
            f"The transaction of connection= is {isolation}, so a task that has ended meanwhile could be stored again; "
            "use one that is read committed."
        )


def _driver_connection(connection: Any) -> Any:
    if isinstance(connection, psycopg.Connection) or _is_psycopg2(connection):
        return connection
    if hasattr(connection, "ensure_connection"):  # Django's wrapper
        if not connection.in_atomic_block and connection.get_autocommit():
            raise UsageError(
                "Django's connection is in autocommit, outside of any transaction; use transaction.atomic()."
            )
        connection.ensure_connection()
        return connection.connection
    if callable(getattr(connection, "connection", None)) and hasattr(connection, "get_bind"):  # SQLAlchemy's Session
        connection = connection.connection()
    if hasattr(connection, "in_transaction") and hasattr(connection, "get_isolation_level"):  # its Connection
        return _sqlalchemy_driver_connection(connection)
    return getattr(connection, "driver_connection", connection)


def _sqlalchemy_driver_connection(connection: Any) -> Any:
    """SQLAlchemy begins its transactions lazily, with the first statement; ours would be the first for the driver."""
    if not connection.in_transaction():
        connection.begin()
    return getattr(connection.connection, "driver_connection", None)


def _async_driver(asked: AsyncConnection) -> Any:
    """Behind SQLAlchemy's AsyncSession and AsyncConnection, or itself."""
    connection = asked.connection
    if hasattr(connection, "get_bind") and hasattr(connection, "sync_session"):
        connection = asked.run(connection.connection())
    if hasattr(connection, "get_raw_connection"):
        if not connection.in_transaction():
            asked.run(_begun(connection))
        if connection.dialect.driver == "asyncpg":  # over which a transaction begins with its first statement
            asked.run(connection.exec_driver_sql("SELECT 1"))
        connection = asked.run(connection.get_raw_connection()).driver_connection
    if isinstance(connection, psycopg.AsyncConnection) or _is_asyncpg(connection):
        return connection
    kind = type(connection)
    raise UsageError(
        f"connection= leads to a {kind.__name__} of {kind.__module__.partition('.')[0]}; use psycopg or asyncpg, "
        "or create_async_engine with one of them."
    )


async def _begun(connection: Any) -> None:
    await connection.begin()


def _async_psycopg_run(driver: "psycopg.AsyncConnection[Any]", asked: AsyncConnection) -> Run:
    async def execute(query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        async with psycopg.AsyncCursor(driver, row_factory=tuple_row) as cursor:
            await cursor.execute(query.encode(), values)
            return await cursor.fetchall()

    return lambda query, values: asked.run(execute(query, values))


def _is_asyncpg(driver: object) -> bool:
    """A connection of its own, or one that its pool has lent."""
    return type(driver).__module__.partition(".")[0] == "asyncpg" and hasattr(driver, "is_in_transaction")


def _check_asyncpg(driver: Any) -> None:
    if driver.is_closed():
        raise UsageError("connection= is closed; pass an open one.")
    if not driver.is_in_transaction():
        raise UsageError("connection= is outside of any transaction; use connection.transaction().")


def _asyncpg_run(driver: Any, asked: AsyncConnection) -> Run:
    async def execute(query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        numbers = count(1)
        numbered = re.sub("%s", lambda _: f"${next(numbers)}", query)
        return [tuple(record) for record in await driver.fetch(numbered, *values)]

    return lambda query, values: asked.run(execute(query, values))


def _check_psycopg(driver: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]") -> None:
    if driver.closed:
        raise UsageError("connection= is closed; pass an open one.")
    if driver.autocommit and driver.info.transaction_status != _IN_TRANSACTION:
        raise UsageError("connection= is in autocommit, outside of any transaction; use connection.transaction().")


def _psycopg_run(driver: "psycopg.Connection[Any]") -> Run:
    def run(query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        # A plain cursor with plain rows: what the caller set up for its own must not matter here.
        with psycopg.Cursor(driver, row_factory=tuple_row) as cursor:
            return cursor.execute(query.encode(), values).fetchall()

    return run


def _is_psycopg2(driver: object) -> bool:
    return type(driver).__module__.partition(".")[0] == "psycopg2" and hasattr(driver, "get_transaction_status")


def _check_psycopg2(driver: Any) -> None:
    if driver.closed:
        raise UsageError("connection= is closed; pass an open one.")
    if driver.autocommit and driver.get_transaction_status() != _IN_TRANSACTION:
        raise UsageError("connection= is in autocommit, outside of any transaction; begin one first.")


def _psycopg2_run(driver: Any) -> Run:
    plain_cursor = import_module("psycopg2.extensions").cursor

    def run(query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with driver.cursor(cursor_factory=plain_cursor) as cursor:
            cursor.execute(query, tuple(values))
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    return run
