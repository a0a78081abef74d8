"""Stem in a FastAPI application: it lives as long as the application, and its open pages do not keep the server."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from stem import Stem, StoreUnavailable
from stem.dashboard import Access
from stem.integrations.fastapi import StemApp, lifespan, mount_dashboard
from support.servers import PostgresServer
from support.until import until


def waiting(app: Stem) -> int:
    depth = app.store.broker.depth().get("default")
    return 0 if depth is None else depth.ready


@pytest.fixture
def stem(tmp_path: Path) -> Iterator[Stem]:
    with Stem(f"sqlite:///{tmp_path}/stem.db") as app:
        app.task(name="work")(lambda number=1: number)
        yield app


@asynccontextmanager
async def served(web: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application, which has started."""
    transport = httpx.ASGITransport(web)
    async with (
        web.router.lifespan_context(web),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        yield client


def test_the_store_is_open_for_handlers_and_closed_after_them(stem: Stem) -> None:
    seen: list[object] = []

    @asynccontextmanager
    async def own(_: FastAPI) -> AsyncIterator[dict[str, str]]:
        seen.append(stem.store_connection.is_open)
        yield {"mine": "kept"}
        seen.append(stem.store_connection.is_open)

    web = FastAPI(lifespan=lifespan(stem, own))

    @web.post("/work")
    async def work(number: int, app: StemApp) -> str:
        return (await app.aenqueue("work", {"number": number})).id

    async def use() -> None:
        async with served(web) as client:
            assert (await client.post("/work", params={"number": 5})).status_code == 200
            assert waiting(stem) == 1

    asyncio.run(use())
    assert seen == [True, True]
    assert not stem.store_connection.is_open


def test_a_store_that_cannot_be_reached_stops_the_start() -> None:
    async def use() -> None:
        async with served(FastAPI(lifespan=lifespan(Stem("redis://127.0.0.1:1")))):
            raise AssertionError("it has started")

    with pytest.raises(StoreUnavailable):
        asyncio.run(use())


def test_a_task_joins_the_transaction_of_an_async_session(postgres_server: PostgresServer, namespace: str) -> None:
    stem = Stem(postgres_server.url, namespace=namespace)
    work = stem.task(name="work")(lambda number=1: number)
    engine = create_async_engine(postgres_server.url.replace("postgresql://", "postgresql+psycopg://"))
    web = FastAPI(lifespan=lifespan(stem))

    @web.post("/orders")
    async def order(is_good: bool) -> None:
        async with AsyncSession(engine) as session:
            await work.options(connection=session).aenqueue(1)
            if is_good:
                await session.commit()

    async def use() -> None:
        async with served(web) as client:
            for is_good, expected in ((False, 0), (True, 1)):
                await client.post("/orders", params={"is_good": is_good})
                assert waiting(stem) == expected
        await engine.dispose()

    asyncio.run(use())


def test_a_mounted_dashboard_asks_for_the_login_that_it_was_given(stem: Stem) -> None:
    web = FastAPI(lifespan=lifespan(stem))
    mount_dashboard(web, stem, "/ops", Access(token="a-long-enough-token"))

    async def use() -> None:
        async with served(web) as client:
            asked = await client.get("/ops/tasks", headers={"Accept": "text/html"})
            assert asked.status_code == 303 and asked.headers["location"].startswith("/ops/login")
            shown = await client.get("/ops/tasks", headers={"Authorization": "Bearer a-long-enough-token"})
            assert shown.status_code == 200 and "/ops/static/" in shown.text

    asyncio.run(use())


SERVED = """
from fastapi import FastAPI
from stem import Stem
from stem.integrations.fastapi import lifespan, mount_dashboard

stem = Stem("sqlite:///stem.db")
web = FastAPI(lifespan=lifespan(stem))
mount_dashboard(web, stem)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_stops_at_once_though_a_page_follows_the_store(tmp_path: Path, number: int) -> None:
    (tmp_path / "served.py").write_text(SERVED)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "served:web", "--port", str(port), "--log-level", "warning"]
    server = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            until(lambda: is_up(client), seconds=30)
            with client.stream("GET", "/stem/live") as stream:
                lines = stream.iter_lines()
                assert "ready" in " ".join(next(lines) for _ in range(4))
                server.send_signal(number)
                assert server.wait(10) in (0, -number)
    finally:
        server.kill()
        server.wait()


def is_up(client: httpx.Client) -> bool:
    try:
        return client.get("/stem/").status_code == 200
    except httpx.ConnectError:
        return False
