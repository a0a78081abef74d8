"""Async code enqueues in its own transaction too: rollback leaves nothing, commit exactly one."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from stem import Bulk, Stem, UsageError
from support.servers import PostgresServer

Opening = Callable[[PostgresServer], AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def psycopg_async(server: PostgresServer) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(server.url) as connection:
        yield connection


@asynccontextmanager
async def sqlalchemy_connection(server: PostgresServer) -> AsyncIterator[Any]:
    engine = create_async_engine(server.url.replace("postgresql://", "postgresql+psycopg://"))
    async with engine.connect() as connection:
        yield connection
    await engine.dispose()


@asynccontextmanager
async def sqlalchemy_session(server: PostgresServer) -> AsyncIterator[Any]:
    engine = create_async_engine(server.url.replace("postgresql://", "postgresql+psycopg://"))
    async with AsyncSession(engine) as session:
        yield session
    await engine.dispose()


OPENINGS = [psycopg_async, sqlalchemy_connection, sqlalchemy_session]


@pytest.fixture
def app(postgres_server: PostgresServer, namespace: str) -> Iterator[Stem]:
    with Stem(postgres_server.url, namespace=namespace) as opened:
        opened.task(name="work")(lambda number=1: number)
        yield opened


def waiting(app: Stem) -> int:
    return app.store.broker.depth(["default"])["default"].ready


@pytest.mark.parametrize("opening", OPENINGS, ids=lambda opening: opening.__name__)
def test_a_rollback_leaves_nothing_and_a_commit_all(
    app: Stem, postgres_server: PostgresServer, opening: Opening
) -> None:
    async def use() -> None:
        async with opening(postgres_server) as connection:
            within = app.tasks["work"].options(connection=connection)
            await within.aenqueue(1)
            await connection.rollback()
            assert waiting(app) == 0
            handle = await within.aenqueue(2)
            assert await within.aenqueue_many([{"number": 3}, {}], chunk=1) == Bulk(2, 0)
            assert waiting(app) == 0
            await connection.commit()
            assert waiting(app) == 3
            assert (await handle.astatus()).state == "queued"

    asyncio.run(use())


@pytest.mark.parametrize("opening", OPENINGS, ids=lambda opening: opening.__name__)
def test_plain_code_is_told_the_right_call(app: Stem, postgres_server: PostgresServer, opening: Opening) -> None:
    async def use() -> None:
        async with opening(postgres_server) as connection:
            with pytest.raises(UsageError, match=r"got an async connection .* await task\.options.*\.aenqueue"):
                app.tasks["work"].options(connection=connection).enqueue(1)

    asyncio.run(use())
    assert waiting(app) == 0


def test_asyncpg_is_refused_with_what_to_use(app: Stem, postgres_server: PostgresServer) -> None:
    async def use() -> None:
        connection = await asyncpg.connect(
            user="postgres", database="postgres", host=postgres_server.socket_directory, port=postgres_server.port
        )
        try:
            with pytest.raises(UsageError, match=r"a Connection of asyncpg; use psycopg"):
                await app.tasks["work"].options(connection=connection).aenqueue(1)
        finally:
            await connection.close()

    asyncio.run(use())
    assert waiting(app) == 0


def test_sqlite_cannot_join_async_code_and_says_so(tmp_path: Path, postgres_server: PostgresServer) -> None:
    async def use(app: Stem) -> None:
        async with psycopg_async(postgres_server) as connection:
            with pytest.raises(UsageError, match=r"cannot join the transaction of an async connection"):
                await app.aenqueue("work", check=False, connection=connection)

    with Stem(f"sqlite:///{tmp_path}/stem.db") as app:
        asyncio.run(use(app))
        assert app.store.broker.depth() == {}
