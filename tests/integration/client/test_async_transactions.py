"""Async code enqueues in its own transaction too: rollback leaves nothing, commit exactly one."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from stem import Bulk, Stem, UsageError
from stem.client.store_connection import StoreConnection
from stem.contracts.async_connection import AsyncConnection
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


@asynccontextmanager
async def sqlalchemy_over_asyncpg(server: PostgresServer) -> AsyncIterator[Any]:
    host, port = server.socket_directory, server.port
    engine = create_async_engine(f"postgresql+asyncpg://postgres@/postgres?host={host}&port={port}")
    async with AsyncSession(engine) as session:
        yield session
    await engine.dispose()


OPENINGS = [psycopg_async, sqlalchemy_connection, sqlalchemy_session, sqlalchemy_over_asyncpg]


@pytest.fixture
def app(postgres_server: PostgresServer, namespace: str) -> Iterator[Stem]:
    with Stem(postgres_server.url, namespace=namespace) as opened:
        opened.task(name="work")(lambda number=1: number)
        yield opened


def waiting(app: Stem) -> int:
    return app.store.broker.depth(["default"])["default"].ready


def test_an_enqueue_that_is_cancelled_between_its_statements_writes_nothing_more(
    app: Stem, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    may_go_on, is_over = Event(), Event()

    class Connection:
        async def execute(self, query: str) -> None:
            said.append(query)

    def push(_: StoreConnection, pushes: object, connection: AsyncConnection) -> None:
        try:
            connection.run(connection.connection.execute("look"))
            may_go_on.wait(30)
            connection.run(connection.connection.execute("push"))
        finally:
            is_over.set()

    async def use() -> None:
        pushing = asyncio.create_task(app.store_connection.apush([], Connection()))
        while not said:
            await asyncio.sleep(0.01)
        pushing.cancel()
        await asyncio.sleep(0)
        may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await pushing
        said.append("rollback")
        await asyncio.to_thread(is_over.wait, 30)

    monkeypatch.setattr(StoreConnection, "push", push)
    asyncio.run(use())
    assert said == ["look", "rollback"]


def test_an_enqueue_that_is_cancelled_in_a_statement_stops_at_once_and_leaves_the_connection_usable(
    app: Stem, postgres_server: PostgresServer
) -> None:
    async def use() -> None:
        async with psycopg_async(postgres_server) as other, psycopg_async(postgres_server) as mine:
            await app.tasks["work"].options(connection=other, id="same").aenqueue()
            pushing = asyncio.create_task(app.tasks["work"].options(connection=mine, id="same").aenqueue())
            while not await blocked(other, mine):
                await asyncio.sleep(0.02)
            pushing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await pushing  # the other still holds the id
            await mine.rollback()
            await other.rollback()
            await mine.execute("SELECT 1")
            await mine.commit()

    asyncio.run(asyncio.wait_for(use(), 60))
    assert waiting(app) == 0


async def blocked(asking: Any, asked: Any) -> bool:
    query = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
    found = await (await asking.execute(query, (asked.info.backend_pid,))).fetchone()
    return bool(found[0])


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


def test_an_asyncpg_transaction_is_joined(app: Stem, postgres_server: PostgresServer) -> None:
    """Also over a connection that its pool has lent."""

    async def use() -> None:
        place = {"host": postgres_server.socket_directory, "port": postgres_server.port}
        async with asyncpg.create_pool(user="postgres", database="postgres", min_size=1, **place) as pool:
            async with pool.acquire() as connection:
                call = app.tasks["work"].options(connection=connection)
                with pytest.raises(UsageError, match="outside of any transaction"):
                    await call.aenqueue(0)
                transaction = connection.transaction()
                await transaction.start()
                await call.aenqueue(1)
                await transaction.rollback()
                assert waiting(app) == 0
                async with connection.transaction():
                    handle = await call.aenqueue(2)
                    again = await app.tasks["work"].options(connection=connection, id=handle.id).aenqueue(2)
                    assert (again.id, waiting(app)) == (handle.id, 0)
                async with connection.transaction(isolation="serializable"):
                    with pytest.raises(UsageError, match="read committed"):
                        await call.aenqueue(3)

    asyncio.run(use())
    assert waiting(app) == 1


def test_sqlite_cannot_join_async_code_and_says_so(tmp_path: Path, postgres_server: PostgresServer) -> None:
    async def use(app: Stem) -> None:
        async with psycopg_async(postgres_server) as connection:
            with pytest.raises(UsageError, match=r"cannot join the transaction of an async connection"):
                await app.aenqueue("work", check=False, connection=connection)

    with Stem(f"sqlite:///{tmp_path}/stem.db") as app:
        asyncio.run(use(app))
        assert app.store.broker.depth() == {}
