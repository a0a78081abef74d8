"""A push that joins the caller's own SQLite transaction, through each library that people use."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.errors import StoreUnavailable, UsageError
from stem.core.lifecycle import EventKind, State
from stem.core.settings.app import Settings
from support.builders import a_push
from support.client.django_site import django_alias
from support.until import until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
    connection.close()
    opened = connect(f"sqlite:///{path}", Settings())
    yield opened
    opened.upkeep.close()


@pytest.fixture
def own(store: Store, path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


def test_a_commit_makes_row_and_task_visible_together(store: Store, own: sqlite3.Connection) -> None:
    own.execute("INSERT INTO orders (item) VALUES ('tea')")
    (receipt,) = store.broker.push([a_push("a")], connection=own)
    assert receipt.created and own.in_transaction
    assert store.results.get(["a"]) == {}
    own.commit()
    assert store.results.get(["a"])["a"].state is State.QUEUED
    assert [event.kind for event in store.events.read(None, limit=9)] == [EventKind.ENQUEUED]
    assert [d.lease.id for d in store.broker.claim(["default"], limit=9, lease_seconds=9)] == ["a"]


def test_a_rollback_leaves_nothing_of_either(store: Store, own: sqlite3.Connection) -> None:
    own.execute("INSERT INTO orders (item) VALUES ('tea')")
    store.broker.push([a_push("a", unique="key")], connection=own)
    own.rollback()
    assert store.results.get(["a"]) == {} and store.broker.depth() == {} and store.events.head() is None
    assert store.broker.push([a_push("b", unique="key")])[0].created
    assert own.execute("SELECT count(*) FROM orders").fetchone() == (0,)


def test_a_push_as_the_first_statement_opens_the_transaction_that_sqlite3_would(
    store: Store, own: sqlite3.Connection
) -> None:
    store.broker.push([a_push("a")], connection=own)
    assert own.in_transaction
    own.rollback()
    assert store.results.get(["a"]) == {}


def test_an_explicit_transaction_in_autocommit_mode_is_joined(store: Store, path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    store.broker.push([a_push("a")], connection=connection)
    connection.execute("COMMIT")
    connection.close()
    assert store.results.get(["a"])["a"].state is State.QUEUED


def test_autocommit_mode_without_a_transaction_is_refused(store: Store, path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(UsageError, match="begin one first"):
        store.broker.push([a_push("a")], connection=connection)
    connection.close()
    assert store.results.get(["a"]) == {}


def test_another_file_is_refused(store: Store, tmp_path: Path) -> None:
    for target in (tmp_path / "other.db", ":memory:"):
        connection = sqlite3.connect(target)
        with pytest.raises(UsageError, match="use the same file"):
            store.broker.push([a_push("a")], connection=connection)
        assert not connection.in_transaction
        connection.close()


def test_an_object_that_is_no_connection_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="connection= is of type str"):
        store.broker.push([a_push("a")], connection="shop.db")


def test_a_closed_connection_is_refused(store: Store, own: sqlite3.Connection) -> None:
    own.close()
    with pytest.raises(UsageError, match="open in this thread"):
        store.broker.push([a_push()], connection=own)


def test_factories_of_the_caller_neither_disturb_nor_change(store: Store, own: sqlite3.Connection) -> None:
    own.row_factory = sqlite3.Row
    own.text_factory = bytes
    store.broker.push([a_push("a", unique="key")], connection=own)
    (again,) = store.broker.push([a_push("b", unique="key")], connection=own)
    own.commit()
    assert again.id == "a"
    assert own.row_factory is sqlite3.Row and own.text_factory is bytes


def test_a_push_that_fails_leaves_the_callers_own_writes(store: Store, own: sqlite3.Connection) -> None:
    own.execute("INSERT INTO orders (item) VALUES ('tea')")
    unstorable = a_push("b", queue="\ud800")
    with pytest.raises(UnicodeEncodeError):
        store.broker.push([a_push("a"), unstorable], connection=own)
    own.commit()
    assert own.execute("SELECT item FROM orders").fetchall() == [("tea",)]
    assert store.results.get(["a"]) == {} and store.broker.depth() == {}


def test_a_waiting_worker_sees_a_joined_push_soon_after_its_commit(store: Store, own: sqlite3.Connection) -> None:
    store.broker.push([a_push("a")], connection=own)
    assert store.broker.wait(["default"], timeout_seconds=0.1) is False
    own.commit()
    assert store.broker.wait(["default"], timeout_seconds=10) is True


def test_sqlalchemy_connections_and_sessions_are_joined(store: Store, path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    insert = sqlalchemy.text("INSERT INTO orders (item) VALUES ('tea')")
    with engine.connect() as connection:
        connection.execute(insert)
        store.broker.push([a_push("rolled-back")], connection=connection)
        connection.rollback()
        store.broker.push([a_push("connection")], connection=connection)
        connection.commit()
    with Session(engine) as session:
        session.execute(insert)
        store.broker.push([a_push("session")], connection=session)
        session.commit()
        store.broker.push([a_push("rolled-back")], connection=session)
        session.rollback()
    engine.dispose()
    assert set(store.results.get(["rolled-back", "connection", "session"])) == {"connection", "session"}


def test_django_transactions_are_joined(store: Store, path: Path) -> None:
    with django_alias({"ENGINE": "django.db.backends.sqlite3", "NAME": str(path)}) as connection:
        from django.db import transaction

        with transaction.atomic(using="shop"):
            store.broker.push([a_push("committed")], connection=connection)
        with transaction.atomic(using="shop"):
            store.broker.push([a_push("rolled-back")], connection=connection)
            transaction.set_rollback(True, using="shop")
        with pytest.raises(UsageError, match="begin one first"):
            store.broker.push([a_push("outside")], connection=connection)
    assert set(store.results.get(["committed", "rolled-back", "outside"])) == {"committed"}


def test_a_writer_that_keeps_the_file_is_named_at_the_deadline(
    path: Path, store: Store, own: sqlite3.Connection
) -> None:
    impatient = connect(f"sqlite:///{path}", Settings(timeout_seconds=0.2))
    own.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked by another writer"):
        impatient.broker.push([a_push("a")])
    assert impatient.broker.claim(["default"], limit=1, lease_seconds=9) == []  # readers go on
    own.rollback()
    until(lambda: impatient.broker.push([a_push("a")])[0].created)
    impatient.upkeep.close()


def test_a_transaction_that_has_read_too_early_is_told_how_to_begin(store: Store, own: sqlite3.Connection) -> None:
    own.execute("BEGIN")
    own.execute("SELECT count(*) FROM orders").fetchone()
    store.broker.push([a_push("meanwhile")])
    with pytest.raises(StoreUnavailable, match="BEGIN IMMEDIATE"):
        store.broker.push([a_push("a")], connection=own)
    own.rollback()
    assert set(store.results.get(["meanwhile", "a"])) == {"meanwhile"}
