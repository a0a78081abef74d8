"""Readers that follow a cursor while transactions commit late and out of turn: none is skipped, none is seen twice."""

import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.revoke import RevokeRequest
from stem.core.settings.app import Settings
from support.builders import a_push
from support.servers import PostgresServer
from support.until import until


@pytest.fixture
def late(postgres_server: PostgresServer, namespace: str) -> Iterator[Store]:
    store = connect(postgres_server.url, Settings(namespace=namespace))
    yield store
    store.upkeep.close()


def test_an_event_whose_transaction_commits_late_is_not_skipped(late: Store, postgres_server: PostgresServer) -> None:
    with psycopg.connect(postgres_server.url) as slow:
        late.broker.push([a_push("slow")], connection=slow)
        late.broker.push([a_push("quick")])
        assert late.events.read(None, limit=10) == []  # quick's event waits for the older transaction
        assert late.events.head() is None
        assert not late.events.wait(None, timeout_seconds=0.2)
        slow.commit()
    assert late.events.wait(None, timeout_seconds=10)
    until(lambda: len(late.events.read(None, limit=10)) >= 2)  # the server has transactions of its own, at times
    assert [event.task_id for event in late.events.read(None, limit=10)] == ["slow", "quick"]


def test_a_follower_meets_each_event_once_while_transactions_end_out_of_turn(
    late: Store, postgres_server: PostgresServer
) -> None:
    seen: list[str] = []
    offset: str | None = None
    with psycopg.connect(postgres_server.url) as first, psycopg.connect(postgres_server.url) as second:
        late.broker.push([a_push("1")], connection=first)
        late.broker.push([a_push("2")], connection=second)
        late.broker.push([a_push("3")])
        for end in (second.commit, first.commit):
            end()
            for event in late.events.read(offset, limit=10):
                seen.append(event.task_id)
                offset = event.offset
    late.broker.push([a_push("4")])
    until(lambda: len(late.events.read(None, limit=10)) >= 4)
    seen += [event.task_id for event in late.events.read(offset, limit=10)]
    assert sorted(seen) == ["1", "2", "3", "4"]
    assert late.events.head() == late.events.read(None, limit=10)[-1].offset


def test_revoke_versions_become_visible_in_order(late: Store, postgres_server: PostgresServer, namespace: str) -> None:
    late.revokes.put([RevokeRequest(task_id="first")])
    with psycopg.connect(postgres_server.url) as slow:
        slow.execute("UPDATE stem.revoke_versions SET version = version + 1 WHERE ns = %s", [namespace])
        putter = threading.Thread(target=late.revokes.put, args=([RevokeRequest(task_id="second")],))
        putter.start()
        until(lambda: _is_waiting(postgres_server))  # a later version cannot overtake one not yet committed
        assert [record.task_id for record in late.revokes.since(0, limit=10)] == ["first"]
        slow.commit()
        putter.join()
    assert [(record.task_id, record.version) for record in late.revokes.since(1, limit=10)] == [("second", 3)]


def test_broadcasts_become_visible_in_order(late: Store, postgres_server: PostgresServer, namespace: str) -> None:
    subscription = late.mail.subscribe("all")
    with psycopg.connect(postgres_server.url) as slow:
        call = sql.SQL("SELECT stem.publish(%s, true, 'all', '\\x31', 60)")
        slow.execute(call, [namespace])
        publisher = threading.Thread(target=late.mail.publish, args=("all", b"2"), kwargs={"ttl_seconds": 60})
        publisher.start()
        until(lambda: _is_waiting(postgres_server))
        assert subscription.receive(timeout_seconds=0) == []
        slow.commit()
        publisher.join()
    assert subscription.receive(timeout_seconds=5) + subscription.receive(timeout_seconds=0) == [b"1", b"2"]


def _is_waiting(server: PostgresServer) -> bool:
    with psycopg.connect(server.url, autocommit=True) as admin:
        return bool(admin.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone())
