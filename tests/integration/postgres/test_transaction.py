"""Pushes that join the caller's own Postgres transaction: rollback leaves nothing, commit exactly one."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.orm import Session

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.errors import UsageError
from stem.core.settings.app import Settings
from support.builders import a_push
from support.client.django_site import django_alias
from support.servers import PostgresServer
from support.stores.calls import claim, depth, ids, kinds_of


@pytest.fixture
def joinable(postgres_server: PostgresServer, namespace: str) -> Iterator[Store]:
    store = connect(postgres_server.url, Settings(namespace=namespace))
    yield store
    store.upkeep.close()


class Undo(Exception):
    """Raised by a test to roll its transaction back."""


@contextmanager
def psycopg_transaction(server: PostgresServer) -> Iterator[Any]:
    with psycopg.connect(server.url, row_factory=dict_row) as connection:
        yield connection


@contextmanager
def psycopg_block_in_autocommit(server: PostgresServer) -> Iterator[Any]:
    with psycopg.connect(server.url, autocommit=True) as connection, connection.transaction():
        yield connection


@contextmanager
def sqlalchemy_connection(server: PostgresServer) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(server.url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def sqlalchemy_session(server: PostgresServer) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(server.url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        with Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


@contextmanager
def django_connection(server: PostgresServer) -> Iterator[Any]:
    with django_alias(django_database(server)) as connection:
        from django.db import transaction

        with transaction.atomic(using="shop"):
            yield connection


def django_database(server: PostgresServer) -> dict[str, str]:
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": "postgres",
        "HOST": str(server.socket_directory),
    }


Way = Callable[[PostgresServer], AbstractContextManager[Any]]
WAYS: list[Way] = [
    psycopg_transaction,
    psycopg_block_in_autocommit,
    sqlalchemy_connection,
    sqlalchemy_session,
    django_connection,
]
ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@ways
def test_a_commit_makes_exactly_one_task_visible(joinable: Store, postgres_server: PostgresServer, way: Way) -> None:
    with way(postgres_server) as connection:
        (receipt,) = joinable.broker.push([a_push("a")], connection=connection)
        (again,) = joinable.broker.push([a_push("a")], connection=connection)
        assert (receipt.created, again.created) == (True, False)
        assert claim(joinable) == []
        assert joinable.results.get(["a"]) == {}
    assert ids(claim(joinable)) == ["a"]
    assert kinds_of(joinable, "a") == ["enqueued"]


@ways
def test_a_rollback_leaves_nothing(joinable: Store, postgres_server: PostgresServer, way: Way) -> None:
    def undone() -> None:
        with way(postgres_server) as connection:
            joinable.broker.push([a_push("a"), a_push("b", queue="other")], connection=connection)
            raise Undo

    with pytest.raises(Undo):
        undone()
    assert joinable.broker.depth() == {}
    assert joinable.events.head() is None
    assert joinable.broker.push([a_push("a")])[0].created


def test_the_callers_own_writes_and_the_push_stand_or_fall_together(
    joinable: Store, postgres_server: PostgresServer
) -> None:
    with psycopg.connect(postgres_server.url) as connection:
        connection.execute("CREATE TEMP TABLE orders (id integer)")
        connection.commit()
        connection.execute("INSERT INTO orders VALUES (1)")
        joinable.broker.push([a_push("a")], connection=connection)
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    assert depth(joinable).ready == 0


def test_a_waiter_wakes_when_the_caller_commits(joinable: Store, postgres_server: PostgresServer) -> None:
    with psycopg.connect(postgres_server.url) as connection:
        joinable.broker.push([a_push("a")], connection=connection)
        assert not joinable.broker.wait(["default"], timeout_seconds=0.1)
        connection.commit()
        assert joinable.broker.wait(["default"], timeout_seconds=20)


def test_autocommit_without_a_transaction_is_refused(joinable: Store, postgres_server: PostgresServer) -> None:
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        with pytest.raises(UsageError, match="autocommit"):
            joinable.broker.push([a_push("a")], connection=connection)
    assert depth(joinable).ready == 0


def test_django_outside_of_atomic_is_refused(joinable: Store, postgres_server: PostgresServer) -> None:
    with django_alias(django_database(postgres_server)) as connection:
        with pytest.raises(UsageError, match="atomic"):
            joinable.broker.push([a_push("a")], connection=connection)


def test_a_database_without_the_schema_is_refused(joinable: Store, postgres_server: PostgresServer) -> None:
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute("DROP DATABASE IF EXISTS elsewhere")
        admin.execute("CREATE DATABASE elsewhere")
    with psycopg.connect(postgres_server.url, dbname="elsewhere") as connection:
        with pytest.raises(UsageError, match="has no Stem schema 'stem'; pass a connection"):
            joinable.broker.push([a_push("a")], connection=connection)
        connection.rollback()


def test_something_that_is_no_connection_is_refused(joinable: Store) -> None:
    with pytest.raises(UsageError, match="got an object of type int"):
        joinable.broker.push([a_push("a")], connection=42)


@pytest.mark.parametrize("level", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
def test_a_transaction_that_cannot_see_what_ended_meanwhile_is_refused_and_stays_usable(
    joinable: Store, postgres_server: PostgresServer, level: psycopg.IsolationLevel
) -> None:
    with psycopg.connect(postgres_server.url) as connection:
        connection.isolation_level = level
        connection.execute("SELECT 1")
        with pytest.raises(UsageError, match="use one that is read committed"):
            joinable.broker.push([a_push("a")], connection=connection)
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert depth(joinable).ready == 0
