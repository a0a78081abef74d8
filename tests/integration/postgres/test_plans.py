"""What a verb costs on Postgres does not follow from what the planner believes of the table: it reads what it was asked for."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from stem.backends import connect
from stem.backends.postgres.broker import PostgresBroker
from stem.contracts.staging import Part, calls_of
from stem.contracts.store import Store
from stem.core.delivery import Delivery, Ending, Report
from stem.core.settings.app import Settings
from support.builders import a_push, dead, done, retry
from support.servers import PostgresServer
from support.stores.calls import WORKER, claim, expire, ids
from support.until import until

BACKLOG, BATCH = 3000, 20


@pytest.fixture
def admin(postgres_server: PostgresServer, namespace: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_server.url, autocommit=True) as conn:
        yield conn
        conn.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(namespace)))


@pytest.fixture
def store(postgres_server: PostgresServer, admin: psycopg.Connection, namespace: str) -> Iterator[Store]:
    """One that was vacuumed when it was empty, and has a backlog now."""
    url = f"{postgres_server.url}&schema={namespace}"
    with opened(url) as first:
        first.broker.push([a_push() for _ in range(BACKLOG)])
        first.broker.settle([done(each.lease) for each in claim(first, limit=BACKLOG)], worker=WORKER)
    admin.execute(sql.SQL("VACUUM (TRUNCATE off) {}.messages").format(sql.Identifier(namespace)))
    with opened(url) as store:
        store.broker.push([a_push() for _ in range(BACKLOG)])
        yield store


class opened:
    def __init__(self, url: str) -> None:
        self._store = connect(url, Settings(namespace="test", timeout_seconds=30.0))

    def __enter__(self) -> Store:
        return self._store

    def __exit__(self, *_: object) -> None:
        self._store.upkeep.close()


def settle(store: Store, claimed: list[Delivery]) -> None:
    assert store.broker.settle([done(each.lease) for each in claimed], worker=WORKER) == []


def settle_mixed(store: Store, claimed: list[Delivery]) -> None:
    endings = [done(claimed[0].lease), *(retry(each.lease) for each in claimed[1:])]
    assert store.broker.settle(endings, worker=WORKER) == []


def start(store: Store, claimed: list[Delivery]) -> None:
    assert store.broker.start([each.lease for each in claimed], worker=WORKER) == []


def report(store: Store, claimed: list[Delivery]) -> None:
    assert store.broker.report([Report(each.lease, {"done": 1}) for each in claimed], worker=WORKER) == []


def renew(store: Store, claimed: list[Delivery]) -> None:
    assert store.broker.renew([each.lease for each in claimed], lease_seconds=60) == []


@pytest.mark.parametrize("verb", [settle, settle_mixed, start, report, renew])
def test_a_batch_does_not_read_all_that_waits(
    store: Store, admin: psycopg.Connection, namespace: str, verb: Callable[[Store, list[Delivery]], None]
) -> None:
    claimed = claim(store, limit=BATCH)
    before = read(store, admin, namespace)
    verb(store, claimed)
    assert read(store, admin, namespace) - before < BACKLOG / 2


@pytest.mark.parametrize("ending", [done, dead])
def test_ending_what_others_wait_for_does_not_read_all_that_waits(
    store: Store, admin: psycopg.Connection, namespace: str, ending: Callable[[Delivery], Ending]
) -> None:
    claimed = claim(store, limit=BATCH)
    store.broker.push([a_push("next", after=ids(claimed)), a_push("last", after=["next"])])
    before = read(store, admin, namespace), read(store, admin, namespace, "records")
    assert store.broker.settle([ending(each) for each in claimed], worker=WORKER) == []
    assert read(store, admin, namespace) - before[0] < BACKLOG / 2
    assert read(store, admin, namespace, "records") - before[1] < BACKLOG / 2


def test_waiting_for_tasks_does_not_read_all_that_waits(
    store: Store, admin: psycopg.Connection, namespace: str
) -> None:
    claimed = claim(store, limit=BATCH)
    settle(store, claimed[1:])
    before = read(store, admin, namespace), read(store, admin, namespace, "records")
    store.broker.push([a_push("next", after=ids(claimed)), a_push("last", after=["next"])])
    assert read(store, admin, namespace) - before[0] < BACKLOG / 2
    assert read(store, admin, namespace, "records") - before[1] < BACKLOG / 2


def test_a_claim_and_a_reclaim_do_not_read_all_that_waits(
    store: Store, admin: psycopg.Connection, namespace: str
) -> None:
    before = read(store, admin, namespace)
    (claimed,) = claim(store, limit=1, lease=0.05)
    expire(store, claimed)
    assert read(store, admin, namespace) - before < BACKLOG / 2


def test_a_promotion_does_not_read_all_that_has_ended(store: Store, admin: psycopg.Connection, namespace: str) -> None:
    store.staging.stage("job", "part", calls_of([a_push() for _ in range(BATCH)]))
    before = read(store, admin, namespace, "records")
    assert store.staging.promote("job", [Part("part", BATCH)]).created == BATCH
    until(
        lambda: (
            admin.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE query ~ 'stage_promote' AND pid <> pg_backend_pid()"
            ).fetchall()
            == [(0,)]
        )
    )
    assert read(store, admin, namespace, "records") - before < BACKLOG / 2


def read(store: Store, admin: psycopg.Connection, schema: str, table: str = "messages") -> int:
    """How many rows were fetched from the table, by this store's connection and those that are closed."""
    assert isinstance(store.broker, PostgresBroker)
    store.broker._namespace.client.rows("SELECT pg_stat_force_next_flush()")
    query = "SELECT coalesce(idx_tup_fetch, 0) + seq_tup_read FROM pg_stat_user_tables WHERE relid = %s::regclass"
    ((count,),) = admin.execute(query, [f"{schema}.{table}"]).fetchall()
    return int(count)
