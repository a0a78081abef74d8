"""A busy Postgres store keeps itself small: it prunes and vacuums by the by, and says what endangers it."""

import time
from collections.abc import Iterator
from enum import IntEnum

import psycopg
import pytest

from stem.backends import connect
from stem.backends.postgres.upkeep import background_pruning, maintenance
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, Ending
from stem.core.errors import UsageError
from stem.core.outcome import Requeue
from stem.core.record import TaskFilter
from stem.core.settings.app import Retention, Settings
from support.background import takes_less_than
from support.builders import a_push, done
from support.servers import PostgresServer
from support.stores.calls import WORKER, claim
from support.until import until


@pytest.fixture
def forgetful(postgres_server: PostgresServer, namespace: str) -> Iterator[Store]:
    retention = Retention(results_seconds=0.001, events_seconds=3600, events_count=10)
    store = connect(postgres_server.url, Settings(namespace=namespace, retention=retention))
    yield store
    store.upkeep.close()


def test_settling_vacuums_the_queue_so_that_claims_do_not_step_over_the_dead(
    forgetful: Store, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_pruning, "_VACUUM_EVERY_ENDINGS", 50)
    monkeypatch.setattr(background_pruning, "_VACUUM_EVERY_SECONDS", 0.0)
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        before = _vacuums(admin)

        def is_vacuumed() -> bool:
            """Not at once if the server vacuums by itself at the moment: then the next endings have it done."""
            forgetful.broker.push([a_push() for _ in range(50)])
            forgetful.broker.settle([done(delivery) for delivery in claim(forgetful)], worker=WORKER)
            return _vacuums(admin) > before

        until(is_vacuumed, every=0.05)


def test_pruning_where_nothing_is_old_takes_next_to_no_time(postgres_server: PostgresServer, namespace: str) -> None:
    store = connect(postgres_server.url, Settings(namespace=namespace, timeout_seconds=30.0))
    store.broker.push([a_push() for _ in range(6000)])  # more events than one step looks at

    def prune() -> float:
        began = time.monotonic()
        store.upkeep.prune()
        return time.monotonic() - began

    takes_less_than(0.5, prune)
    store.upkeep.close()


def test_settling_prunes_what_retention_has_outlived(forgetful: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_pruning, "_PRUNE_EVERY_SECONDS", 0.0)
    forgetful.broker.push([a_push(f"t{number}") for number in range(30)])
    ended = claim(forgetful, limit=29)
    forgetful.broker.settle([done(delivery) for delivery in ended], worker=WORKER)

    def is_pruned() -> bool:
        forgetful.broker.push([a_push()])
        forgetful.broker.settle([done(delivery) for delivery in claim(forgetful, limit=1)], worker=WORKER)
        return not forgetful.results.get([delivery.lease.id for delivery in ended])

    until(is_pruned)


def test_one_round_of_pruning_catches_up_with_a_long_log(
    forgetful: Store, postgres_server: PostgresServer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(
            "INSERT INTO stem.events (ns, txid, n, at, enqueued_at, attempt, kind, task_id, name, queue)"
            " SELECT %s, '1', n, 1e12, 1, 0, 'enqueued', n, 'demo', 'default' FROM generate_series(-40000, -1) n",
            [namespace],
        )

        def events() -> int:
            row = admin.execute("SELECT count(*) FROM stem.events WHERE ns = %s", [namespace]).fetchone()
            return int(row[0]) if row else 0

        forgetful.broker.push([a_push()])
        monkeypatch.setattr(background_pruning, "_PRUNE_EVERY_SECONDS", 0.0)
        forgetful.broker.settle([done(delivery) for delivery in claim(forgetful)], worker=WORKER)
        monkeypatch.setattr(background_pruning, "_PRUNE_EVERY_SECONDS", 3600.0)
        until(lambda: events() == 10, seconds=30)
        until(lambda: forgetful.upkeep.prune() == 0)  # of the last record the time may have been up a moment too late
        assert events() == 10


def test_the_server_is_named_and_what_endangers_it_is_said(
    forgetful: Store, postgres_server: PostgresServer, namespace: str
) -> None:
    diagnosis = forgetful.upkeep.diagnose()
    assert diagnosis.server.startswith("PostgreSQL ")
    assert diagnosis.latency_seconds < 5
    assert diagnosis.warnings == []
    url = postgres_server.url + "&options=-csynchronous_commit%3Doff"
    risky = connect(url, Settings(namespace=namespace))
    assert "synchronous_commit is off" in risky.upkeep.diagnose().warnings[0]
    risky.upkeep.close()


def test_a_transaction_left_open_is_said(
    forgetful: Store, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_LONG_SECONDS", 0.0)
    with psycopg.connect(postgres_server.url) as reader, psycopg.connect(postgres_server.url) as writer:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT 1")
        until(lambda: "has been reading for" in " ".join(forgetful.upkeep.diagnose().warnings))
        writer.execute("SELECT pg_current_xact_id()")
        until(lambda: "event readers may lag" in " ".join(forgetful.upkeep.diagnose().warnings))


@pytest.mark.parametrize("cursor", ["abc", "-1", "9" * 30, ""])
def test_a_cursor_that_no_page_gave_is_refused(forgetful: Store, cursor: str) -> None:
    with pytest.raises(UsageError, match="is not a cursor"):
        forgetful.results.page(TaskFilter(), limit=1, cursor=cursor)
    with pytest.raises(UsageError, match="is not a cursor"):
        forgetful.deadletters.page(DeadFilter(), limit=1, cursor=cursor)


def test_limits_and_numbers_of_any_size_and_kind_are_taken(forgetful: Store) -> None:
    class Urgency(IntEnum):
        HIGH = 9

    forgetful.broker.push([a_push("a", priority=Urgency.HIGH)])
    assert len(forgetful.results.page(TaskFilter(), limit=10**10).items) == 1
    (delivery,) = claim(forgetful, limit=10**10)
    assert forgetful.broker.settle([done(delivery)], worker=WORKER) == []
    assert forgetful.broker.reclaim(limit=10**10).returned == []


def _vacuums(admin: "psycopg.Connection[tuple[int]]") -> int:
    admin.execute("SELECT pg_stat_clear_snapshot()")
    ours = "SELECT vacuum_count FROM pg_stat_user_tables WHERE schemaname = 'stem' AND relname = 'messages'"
    row = admin.execute(ours).fetchone()
    return row[0] if row else 0


def test_a_task_that_is_throttled_again_and_again_does_not_grow(
    forgetful: Store, postgres_server: PostgresServer, namespace: str
) -> None:
    forgetful.broker.push([a_push("a", meta={"mine": 1})])
    for count in range(20):
        note = {"throttled": {"limit": "rate-limit demo", "retryAfterSeconds": count}}
        (delivery,) = claim(forgetful)
        settlement = Requeue(0.0, "rate-limit demo", throttled=True)
        forgetful.broker.settle([Ending(delivery.lease, settlement, None, note)], worker=WORKER)
    with psycopg.connect(postgres_server.url) as conn:
        ((meta,),) = conn.execute("SELECT meta FROM stem.messages WHERE ns = %s", [namespace]).fetchall()
    assert meta.count("\n") == 1
