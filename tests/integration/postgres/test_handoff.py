"""What handing over comes to on Postgres alone: connections that break or hear nothing, rows that others hold, upgrades."""

import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import psycopg
import pytest

from stem.backends import connect
from stem.backends.postgres.broker import PostgresBroker
from stem.backends.postgres.notify import handoff, notifier
from stem.backends.postgres.notify.handoff import PostgresHandoff
from stem.backends.postgres.notify.listen_connection import ListenConnection
from stem.contracts.store import Store
from stem.core.settings.app import Settings
from support.builders import a_push
from support.servers import PostgresServer
from support.stores.calls import answered, claim, depth, ids, let_time_pass
from support.stores.handoffs import LEASE, push_each, register, wait_for_handoff
from support.stores.opened import a_store
from support.until import until
from support.workers.fleet import Fleet, a_fleet


@pytest.fixture(autouse=True)
def _tells_of_every_push(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one that follows another at once."""
    monkeypatch.setattr(notifier, "_GAP_SECONDS", 0.0)


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


def test_the_lease_lasts_what_the_waiter_said_or_the_call_itself(
    store: Store, other: Store, admin: psycopg.Connection, namespace: str
) -> None:
    register(store, room=2)
    other.broker.push([a_push("as said")])
    other.broker.push([a_push("its own", visibility_timeout=500.0)])
    query = "SELECT id, round(leased_until - enqueued_at) FROM stem.messages WHERE ns = %s"
    assert dict(admin.execute(query, [namespace]).fetchall()) == {"as said": LEASE, "its own": 500}


# Not heard of


def test_tasks_sent_over_a_connection_that_broke_are_fetched(
    store: Store, other: Store, admin: psycopg.Connection
) -> None:
    register(store)
    push_each(other, "a", "b")
    cut(admin, store)
    assert until(lambda: wait_for_handoff(store))
    assert ids(claim(store)) == ["a", "b"]
    register(store)
    assert claim(store) == []


def test_a_task_received_so_late_that_its_lease_may_be_over_is_leased_again(
    store: Store, other: Store, admin: psycopg.Connection, namespace: str
) -> None:
    register(store, lease=4.0)
    other.broker.push([a_push("a")])
    let_time_pass(store, 1.1)
    assert wait_for_handoff(store, lease=4.0)
    assert ids(claim(store)) == ["a"]
    query = "SELECT leased_until - enqueued_at FROM stem.messages WHERE ns = %s"
    ((seconds,),) = admin.execute(query, [namespace]).fetchall()
    assert seconds > 5.0


def test_a_handed_over_task_stays_listed_after_pushers_found_the_connection_gone(
    store: Store, other: Store, admin: psycopg.Connection
) -> None:
    register(store)
    other.broker.push([a_push("a")])
    cut(admin, store)
    push_each(other, "b", "c")
    assert ids(claim(other)) == ["b", "c"]
    assert until(lambda: wait_for_handoff(store))
    assert ids(claim(store)) == ["a"]


def test_a_listen_connection_that_has_missed_something_is_replaced(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose connection has silently died, which the server does not know."""
    register(store)
    deaf = connection_of(store)
    monkeypatch.setattr(deaf, "receive", lambda seconds: (threading.Event().wait(min(seconds, 0.01)) and []) or [])
    other.broker.push([a_push("a")])
    let_time_pass(store, 1.1)
    assert until(lambda: wait_for_handoff(store, room=1))
    assert ids(claim(store)) == ["a"]
    until(lambda: connection_of(store) not in (deaf, None))
    register(store)
    other.broker.push([a_push("b")])
    assert wait_for_handoff(store)
    assert ids(claim(store)) == ["b"]


def test_a_worker_whose_registration_is_locked_goes_on_without_it(
    store: Store, other: Store, admin: psycopg.Connection, namespace: str
) -> None:
    """A push may have to wait for another with the same id."""
    register(store, room=2)
    with admin.transaction():
        admin.execute("SELECT FROM stem.handoffs WHERE ns = %s FOR UPDATE", [namespace])
        other.broker.push([a_push("a"), a_push("b")])
        assert wait_for_handoff(store, room=1, seconds=20)
        assert ids(claim(store)) == ["a", "b"]
        assert store.broker.stop_handoff() == []
    until(lambda: store.broker.stop_handoff() == [] and handoff_of(store)._registration is None)


# Who is there


def test_no_worker_registers_where_channels_of_single_connections_deliver_nothing(
    store: Store, other: Store, registrations: "Registrations", monkeypatch: pytest.MonkeyPatch
) -> None:
    """As through a pooler that shares connections."""
    monkeypatch.setattr(handoff, "NOTIFY", "SELECT %s::text[], %s::text[]")
    until(
        lambda: not wait_for_handoff(store) and (connection := connection_of(store)) is not None and connection.is_deaf
    )
    other.broker.push([a_push("a")])
    assert wait_for_handoff(store)
    assert (registrations.count(), depth(other).ready) == (0, 1)
    broker_of(store)._namespace.listeners.work.reconnect()
    until(
        lambda: (
            wait_for_handoff(store) and (connection := connection_of(store)) is not None and connection.number is None
        )
    )


def test_a_worker_whose_connection_is_gone_is_handed_nothing(
    store: Store, other: Store, admin: psycopg.Connection, registrations: "Registrations"
) -> None:
    register(store)
    cut(admin, store)
    other.broker.push([a_push("a")])
    assert registrations.all() == [(0, ["default"])]
    assert ids(claim(other)) == ["a"]


def test_registrations_of_workers_that_ended_without_withdrawing_are_cleared_away(
    store: Store, admin: psycopg.Connection, namespace: str, registrations: "Registrations"
) -> None:
    query = "INSERT INTO stem.handoffs SELECT %s, n, 0, 0, 5, '{default}', '{}' FROM generate_series(1, 100) n"
    admin.execute(query, [namespace])
    register(store)
    assert registrations.count() == 1


def test_no_worker_registers_while_old_row_versions_pile_up(store: Store, admin: psycopg.Connection) -> None:
    """As while a transaction stays open: a push would have to look at them all."""
    admin.execute("INSERT INTO stem.handoffs SELECT 'bulk', n, 0, 0, 0, '{}', '{}' FROM generate_series(1, 10000) n")
    try:
        until(lambda: not wait_for_handoff(store) and handoff_of(store)._not_before > monotonic())
        assert handoff_of(store)._registration is None
    finally:
        admin.execute("TRUNCATE stem.handoffs")


def test_a_role_that_may_use_the_tables_may_push_after_the_upgrade(
    postgres_server: PostgresServer, admin: psycopg.Connection, namespace: str
) -> None:
    schema, role = f"older_{namespace}", f"guest_{namespace}"
    url = f"{postgres_server.url}&schema={schema}"
    connect(url, Settings()).upkeep.close()
    admin.execute(f"CREATE ROLE {role} LOGIN".encode())
    try:
        admin.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}".encode())
        for kind in (f"ALL TABLES IN SCHEMA {schema}", f"ALL SEQUENCES IN SCHEMA {schema}"):
            admin.execute(f"GRANT ALL ON {kind} TO {role}".encode())
        admin.execute(f"DROP TABLE {schema}.handoffs; UPDATE {schema}.version SET version = 10".encode())
        connect(url, Settings()).upkeep.close()
        guest = connect(url.replace("postgres:@", f"{role}:@"), Settings())
        assert guest.broker.push([a_push("a")])[0].created
        guest.upkeep.close()
    finally:
        admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}; DROP SCHEMA {schema} CASCADE".encode())


def test_a_crash_of_the_server_leaves_no_registration_and_every_worker_registers_again(namespace: str) -> None:
    server = PostgresServer()
    store, other = (connect(server.url, Settings(namespace=namespace, timeout_seconds=30.0)) for _ in range(2))
    try:
        register(store)
        other.broker.push([a_push("a")])
        server.lose()
        until(lambda: answered(lambda: [wait_for_handoff(store)]), seconds=30)
        assert depth(other).running == 1
        assert ids(claim(store)) in (["a"], [])  # it may have been heard of before
        register(store)
        other.broker.push([a_push("b")])
        assert wait_for_handoff(store)
        assert ids(claim(store)) == ["b"]
    finally:
        store.upkeep.close()
        other.upkeep.close()
        server.close()


# With real workers


@pytest.fixture
def fleet(postgres_server: PostgresServer, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(postgres_server.url, namespace, tmp_path)


def test_a_worker_is_handed_most_of_what_is_pushed_one_by_one(fleet: Fleet, registrations: "Registrations") -> None:
    fleet.start()
    fleet.ended(fleet.push("note", "first"))
    for number in range(20):
        until(lambda: registrations.count() == 1)
        fleet.ended(fleet.push("note", f"t{number}"))
    assert max(fleet.ledger.runs().values()) == 1
    assert registrations.claims() < 10


# Helpers


class Registrations:
    def __init__(self, admin: psycopg.Connection, namespace: str) -> None:
        self._admin = admin
        self._namespace = namespace

    def all(self) -> list[tuple[int, list[str]]]:
        query = "SELECT free_slots, queues FROM stem.handoffs WHERE ns = %s"
        return self._admin.execute(query, [self._namespace]).fetchall()

    def count(self) -> int:
        return len(self.all())

    def claims(self) -> int:
        """How many tasks were claimed: one that is handed over has its fence from its push."""
        query = "SELECT count(*) FROM stem.records WHERE ns = %s AND fence <> (enqueued_at * 1000000)::bigint"
        ((count,),) = self._admin.execute(query, [self._namespace]).fetchall()
        return int(count)


@pytest.fixture
def registrations(admin: psycopg.Connection, namespace: str) -> Registrations:
    return Registrations(admin, namespace)


def cut(admin: psycopg.Connection, store: Store) -> None:
    """The connection over which it listens ends, from the server's side."""
    connection = connection_of(store)
    assert connection is not None
    query = "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE query = %s"
    assert admin.execute(query, [f'LISTEN "{connection.channel}"']).fetchall() == [(True,)]


def connection_of(store: Store) -> ListenConnection | None:
    return broker_of(store)._namespace.listeners.work.connection


def broker_of(store: Store) -> PostgresBroker:
    assert isinstance(store.broker, PostgresBroker)
    return store.broker


def handoff_of(store: Store) -> PostgresHandoff:
    return broker_of(store)._handoff
