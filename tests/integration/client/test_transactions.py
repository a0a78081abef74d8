"""Enqueue inside the caller's own transaction: rollback leaves nothing, commit exactly one."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stem import Bulk, Stem, UsageError, group
from stem.testing import run_pending
from support.servers import PostgresServer, RedisServer


@pytest.fixture(params=["sqlite", "postgres"])
def joined(request: pytest.FixtureRequest, tmp_path: Path, namespace: str) -> Iterator[tuple[Stem, Any]]:
    """An app, and a connection of the caller's own to the same database."""
    connection: Any
    if request.param == "sqlite":
        url, connection = f"sqlite:///{tmp_path}/stem.db", sqlite3.connect(tmp_path / "stem.db")
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url, connection = server.url, psycopg.connect(server.url)
    with Stem(url, namespace=namespace) as app, closing(connection):
        app.task(name="work")(lambda number=1: number)
        assert app.store.broker.depth() == {}
        yield app, connection


def waiting(app: Stem) -> int:
    return app.store.broker.depth(["default"])["default"].ready


def test_a_rollback_leaves_nothing(joined: tuple[Stem, Any]) -> None:
    app, connection = joined
    handle = app.tasks["work"].options(connection=connection).enqueue(1)
    app.tasks["work"].options(connection=connection).enqueue_many({"number": number} for number in range(10))
    connection.rollback()
    assert waiting(app) == 0
    assert app.store.results.get([handle.id]) == {}


def test_a_commit_leaves_exactly_one(joined: tuple[Stem, Any]) -> None:
    app, connection = joined
    handle = app.enqueue("work", {"number": 5}, connection=connection, id="one")
    assert app.enqueue("work", {"number": 5}, connection=connection, id="one").created is False
    assert waiting(app) == 0
    connection.commit()
    assert waiting(app) == 1
    assert run_pending(app) == 1
    assert handle.get(5) == 5


def test_a_canvas_is_there_with_the_commit_and_not_after_a_rollback(joined: tuple[Stem, Any]) -> None:
    app, connection = joined
    work = app.tasks["work"]
    canvas = group(work.s(1), work.s(2)) | work.s()
    canvas.submit(connection=connection)
    connection.rollback()
    assert app.store.broker.depth() == {}
    handle = canvas.set(connection=connection).submit()
    assert run_pending(app) == 0
    connection.commit()
    assert run_pending(app) == 3
    assert handle.get(5) == [1, 2]


def test_bulk_and_async_calls_join_the_transaction(joined: tuple[Stem, Any]) -> None:
    app, connection = joined
    within = app.tasks["work"].options(connection=connection)
    assert within.enqueue_many([{"number": 1}, {}], chunk=1) == Bulk(2, 0)
    asyncio.run(within.aenqueue(3))
    assert asyncio.run(within.aenqueue_many([{"number": 4}])) == Bulk(1, 0)
    assert waiting(app) == 0
    connection.commit()
    assert waiting(app) == 4


def test_results_kept_apart_learn_of_it_when_it_runs(joined: tuple[Stem, Any], tmp_path: Path) -> None:
    app, connection = joined
    with Stem(settings=app.settings, results_url=f"sqlite:///{tmp_path}/results.db") as apart:
        apart.task(name="work")(lambda number=1: number)
        rolled_back = apart.enqueue("work", connection=connection)
        connection.rollback()
        assert apart.store.results.get([rolled_back.id]) == {}
        kept = apart.enqueue("work", {"number": 7}, connection=connection)
        connection.commit()
        assert kept.status().state == "queued"
        run_pending(apart)
        assert kept.get(5) == 7


def test_redis_cannot_and_says_so(redis_server: RedisServer, namespace: str) -> None:
    with Stem(redis_server.url, namespace=namespace) as app:
        with pytest.raises(UsageError, match="cannot join a transaction"):
            app.enqueue("work", check=False, connection=object())
        assert app.store.broker.depth() == {}
