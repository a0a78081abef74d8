"""Who waits on Postgres hears the news himself, for all who wait beside him; nobody listens for longer than somebody waits."""

from collections.abc import Iterator
from functools import partial

import psycopg
import pytest

from stem.backends.postgres.broker import PostgresBroker
from stem.backends.postgres.notify import listener
from stem.backends.postgres.notify.notifier import notification
from stem.contracts.store import Store
from support.background import in_thread, is_waiting
from support.builders import a_push
from support.servers import PostgresServer
from support.stores.calls import claim
from support.stores.opened import a_store
from support.until import until

SOON = 20.0  # far less than the polls below


@pytest.fixture(autouse=True)
def _no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not heard is not found in time."""
    monkeypatch.setattr(listener, "_UNSEEN_POLL_SECONDS", 300.0)
    monkeypatch.setattr(listener, "_FIRST_POLL_SECONDS", 300.0)
    monkeypatch.setattr(listener, "_LAST_POLL_SECONDS", 300.0)


@pytest.fixture
def store(postgres_server: PostgresServer, namespace: str) -> Iterator[Store]:
    yield from a_store(postgres_server.url, namespace)


@pytest.fixture
def other(postgres_server: PostgresServer, namespace: str) -> Iterator[Store]:
    yield from a_store(postgres_server.url, namespace)


@pytest.fixture
def admin(postgres_server: PostgresServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_server.url, autocommit=True) as conn:
        yield conn


def test_whoever_hears_for_all_hands_over_when_he_leaves(store: Store, other: Store) -> None:
    listens(store)
    first = in_thread(lambda: store.broker.wait(["a"], timeout_seconds=60))
    assert is_waiting(first)
    second = in_thread(lambda: store.broker.wait(["b"], timeout_seconds=60))
    assert is_waiting(second)
    other.broker.push([a_push(queue="a")])
    assert first.result(SOON)
    assert is_waiting(second)
    other.broker.push([a_push(queue="b")])
    assert second.result(SOON)


def test_one_who_hears_wakes_all_whom_it_concerns(store: Store, other: Store) -> None:
    listens(store)
    waiting = [in_thread(lambda: store.broker.wait(["a"], timeout_seconds=60)) for _ in range(5)]
    assert not [each for each in waiting if not is_waiting(each)]
    other.broker.push([a_push(queue="a")])
    assert all(each.result(SOON) for each in waiting)


def test_a_notification_between_two_waits_is_not_missed(store: Store, other: Store) -> None:
    listens(store)
    assert claim(store) == []
    other.broker.push([a_push()])
    assert store.broker.wait(["default"], timeout_seconds=SOON)


def test_a_worker_that_claimed_less_than_its_limit_waits_without_a_query(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    listens(store)
    assert isinstance(store.broker, PostgresBroker)
    client, work, asked = store.broker._namespace.client, store.broker._namespace.listeners.work, list[bytes]()
    cells = client.cells

    def noted(statement, *rest, **more):  # type: ignore[no-untyped-def]
        asked.append(statement.query)
        return cells(statement, *rest, **more)

    monkeypatch.setattr(client, "cells", noted)
    for _ in range(3):
        assert len(claim(store, limit=2)) < 2
        waiting = in_thread(lambda: store.broker.wait(["default"], timeout_seconds=60))
        until(lambda: any(each.is_asleep for each in work._waiters))
        other.broker.push([a_push()])
        assert waiting.result(SOON)
    assert not [query for query in asked if b"Broker.wait" in query]
    assert len(claim(store, limit=1)) == 1
    waiting = in_thread(lambda: store.broker.wait(["default"], timeout_seconds=60))
    until(
        lambda: [query for query in asked if b"Broker.wait" in query]
    )  # it got as many as it wanted: there may be more
    other.broker.push([a_push()])
    assert waiting.result(SOON)


def test_a_row_that_was_locked_during_the_claim_and_then_released_is_found_soon(
    store: Store, other: Store, admin: psycopg.Connection, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_UNSEEN_POLL_SECONDS", 0.02)
    listens(store)
    other.broker.push([a_push()])
    assert store.broker.wait(["default"], timeout_seconds=SOON)
    with admin.transaction():
        admin.execute("SELECT FROM stem.messages WHERE ns = %s AND place = 0 FOR UPDATE", [namespace])
        assert claim(store) == []
    assert store.broker.wait(["default"], timeout_seconds=SOON)
    assert len(claim(store)) == 1


def test_a_delayed_task_that_a_claim_has_seen_ends_the_wait_when_it_is_due(store: Store) -> None:
    listens(store)
    store.broker.push([a_push(delay=1.0)])
    assert claim(store) == []
    assert store.broker.wait(["default"], timeout_seconds=SOON)
    until(lambda: claim(store))


def test_a_connection_that_is_cut_is_replaced_while_somebody_waits(
    store: Store, other: Store, admin: psycopg.Connection, namespace: str
) -> None:
    listens(store)
    waiting = in_thread(lambda: store.broker.wait(["default"], timeout_seconds=60))
    assert is_waiting(waiting)
    (pid,) = listening(admin, store)
    admin.execute("SELECT pg_terminate_backend(%s)", [pid])
    until(lambda: (found := listening(admin, store)) and found != [pid])
    assert is_waiting(waiting)
    other.broker.push([a_push()])
    assert waiting.result(SOON)


def test_nobody_listens_for_long_after_the_last_wait(
    store: Store, other: Store, admin: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_LINGER_SECONDS", 0.2)
    listens(store)
    until(lambda: listening(admin, store) == [])
    waiting = in_thread(lambda: store.broker.wait(["default"], timeout_seconds=60))
    until(lambda: listening(admin, store))
    other.broker.push([a_push()])
    assert waiting.result(SOON)


def test_closing_the_store_ends_the_wait_of_whoever_hears(store: Store) -> None:
    listens(store)
    waiting = in_thread(lambda: store.broker.wait(["default"], timeout_seconds=60))
    assert is_waiting(waiting)
    store.upkeep.close()
    assert waiting.result(SOON) is False


def listens(store: Store) -> None:
    """Its connection for work is open, as it is after the first wait, and all that was told so far is heard."""
    assert isinstance(store.broker, PostgresBroker)
    space = store.broker._namespace
    waiting = in_thread(partial(store.broker.wait, ["heard"], timeout_seconds=60))
    until(lambda: space.listeners.work.position is not None)
    space.notify(notification(["heard"]))  # of which nothing is to be found
    assert waiting.result(SOON)


def listening(admin: psycopg.Connection, store: Store) -> list[int]:
    assert isinstance(store.broker, PostgresBroker)
    said = f'LISTEN "{store.broker._namespace.listeners.work._channel}"'
    found = admin.execute("SELECT pid FROM pg_stat_activity WHERE query = %s", [said]).fetchall()
    return [pid for (pid,) in found]
