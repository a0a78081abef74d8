"""Callers of a Postgres store that get in each other's way: floods, opposite orders, long transactions."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from stem.backends import connect
from stem.backends.postgres.statements import query_text
from stem.contracts.store import Store
from stem.core.delivery import Delivery, Ending, Report
from stem.core.envelope import Unique
from stem.core.settings.app import Settings
from support.builders import a_push, dead, done
from support.servers import PostgresServer
from support.stores.calls import LONG, WORKER, claim, claim_one, depth, ids, leases, let_time_pass, record, state
from support.until import until


@pytest.fixture
def crowded(postgres_server: PostgresServer, namespace: str) -> Iterator[Store]:
    store = connect(postgres_server.url, Settings(namespace=namespace, timeout_seconds=20))
    yield store
    store.upkeep.close()


def test_a_flood_of_expired_tasks_does_not_hold_up_the_one_behind(crowded: Store) -> None:
    for _ in range(4):
        crowded.broker.push([a_push(expires=0.001) for _ in range(4000)])
    crowded.broker.push([a_push("good")])
    let_time_pass(crowded, 0.01)
    assert ids(claim(crowded, limit=1)) == ["good"]
    assert depth(crowded).ready == 0


def test_a_duplicate_in_an_open_transaction_does_not_keep_the_holder_from_ending(
    crowded: Store, postgres_server: PostgresServer
) -> None:
    crowded.broker.push([a_push("holder", unique="k")])
    holder = claim_one(crowded)
    with psycopg.connect(postgres_server.url) as connection:
        (receipt,) = crowded.broker.push([a_push("again", unique="k")], connection=connection)
        assert (receipt.id, receipt.created) == ("holder", False)
        assert crowded.broker.settle([done(holder)], worker=WORKER) == []


def test_a_unique_key_that_has_run_out_changes_hands(crowded: Store) -> None:
    crowded.broker.push([a_push("first", unique=Unique("k", 0.001))])
    let_time_pass(crowded, 0.01)
    (second,) = crowded.broker.push([a_push("second", unique=Unique("k", LONG))])
    (third,) = crowded.broker.push([a_push("third", unique=Unique("k", LONG))])
    assert (second.id, second.created) == ("second", True)
    assert (third.id, third.created) == ("second", False)


def test_pushes_of_the_same_ids_in_opposite_orders_all_succeed(crowded: Store, postgres_server: PostgresServer) -> None:
    forth = [f"task-{number:03}" for number in range(200)]
    orders = [forth, forth[::-1]] * 3
    before = _deadlocks(postgres_server)
    with ThreadPoolExecutor(len(orders)) as threads:
        receipts = threads.map(lambda order: crowded.broker.push([a_push(id) for id in order]), orders)
        assert sum(receipt.created for batch in receipts for receipt in batch) == len(forth)
    assert depth(crowded).ready == len(forth)
    assert _deadlocks(postgres_server) == before


def test_a_batch_waits_in_the_order_it_was_pushed_whatever_its_ids(crowded: Store) -> None:
    crowded.broker.push([a_push("c"), a_push("a"), a_push("c"), a_push("b")])
    assert ids(claim(crowded)) == ["c", "a", "b"]


def test_renewals_reports_and_starts_of_the_same_leases_do_not_lock_each_other_out(
    crowded: Store, postgres_server: PostgresServer
) -> None:
    crowded.broker.push([a_push(f"task-{number:03}") for number in range(300, 0, -1)])
    held = leases(claim(crowded, limit=300))
    before = _deadlocks(postgres_server)

    def often(call: Callable[[], object]) -> None:
        for _ in range(15):
            call()

    with ThreadPoolExecutor() as threads:
        running = [
            threads.submit(often, lambda: crowded.broker.renew(held, lease_seconds=LONG)),
            threads.submit(often, lambda: crowded.broker.report([Report(lease) for lease in held], worker=WORKER)),
            threads.submit(often, lambda: crowded.broker.start(sorted(held, key=lambda x: x.id), worker=WORKER)),
        ]
        for each in running:
            each.result()
    assert _deadlocks(postgres_server) == before


def test_a_flood_of_due_tasks_does_not_hide_what_is_due_in_another_queue(
    crowded: Store, postgres_server: PostgresServer, namespace: str
) -> None:
    crowded.broker.push([a_push(queue="flood", delay=0.001) for _ in range(6000)])
    crowded.broker.push([a_push("urgent", queue="other", delay=0.001, priority=9)])
    let_time_pass(crowded, 0.01)
    assert ids(claim(crowded, "flood", "other", limit=1)) == ["urgent"]


def test_waiting_goes_by_the_index_also_while_the_statistics_are_old(
    crowded: Store, postgres_server: PostgresServer
) -> None:
    fill = (
        "INSERT INTO aged.messages (ns, id, seq, due_at, enqueued_at, updated_at, priority, place, queue, name, meta, body)"
        " SELECT 'n', %(queue)s || x, x, 1, 1, 1, 5, 0, %(queue)s, 'demo', '{}', '{}' FROM generate_series(1, %(count)s) x"
    )
    connect(postgres_server.url + "&schema=aged", Settings()).upkeep.close()
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(fill, {"queue": "then", "count": 20_000})
        admin.execute("ANALYZE aged.messages")
        admin.execute("DELETE FROM aged.messages")
        admin.execute(fill, {"queue": "now", "count": 60_000})
        question = b"EXPLAIN " + query_text("wait", "aged")
        plan = psycopg.RawCursor(admin).execute(question, ["n", ["then"]]).fetchall()
    assert not [line for (line,) in plan if "Seq Scan on messages" in line]


def test_a_fence_only_grows_also_where_the_clock_goes_back(
    crowded: Store, postgres_server: PostgresServer, namespace: str
) -> None:
    crowded.broker.push([a_push("x")])
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(
            "UPDATE stem.messages SET fence = (stem.now_seconds() + 3600) * 1000000 WHERE ns = %s", [namespace]
        )
    ahead = record(crowded, "x").fence
    assert claim_one(crowded).lease.fence > ahead


def test_a_lock_being_renewed_as_it_runs_out_has_one_owner(
    crowded: Store, postgres_server: PostgresServer, namespace: str
) -> None:
    renewal = {"ns": namespace, "name": "job", "owner": "a", "ttl": LONG}
    with psycopg.connect(postgres_server.url) as slow, ThreadPoolExecutor() as threads:

        def is_renewed() -> bool:
            slow.rollback()
            crowded.locks.acquire("job", owner="a", ttl_seconds=0.2)
            return bool(slow.execute(query_text("lock_renew", "stem"), renewal).fetchall())

        until(is_renewed)  # it may have run out before that, on a busy machine
        let_time_pass(crowded, 0.2)
        other = threads.submit(crowded.locks.acquire, "job", owner="b", ttl_seconds=LONG)
        until(lambda: _is_waiting(postgres_server))
        slow.commit()
        assert other.result() is None
    assert crowded.locks.owner("job") == "a"


@pytest.mark.parametrize("end", [done, dead], ids=["done", "dead"])
def test_a_record_saved_beside_the_push_does_not_keep_the_batch_from_ending(
    crowded: Store, postgres_server: PostgresServer, namespace: str, end: Callable[[Delivery], Ending]
) -> None:
    crowded.broker.push([a_push("x"), a_push("y")])
    _save_beside(postgres_server, namespace, "x")
    assert crowded.broker.settle([end(delivery) for delivery in claim(crowded)], worker=WORKER) == []
    ended = [record(crowded, "x"), record(crowded, "y")]
    assert all(each.is_terminal and each.worker == WORKER for each in ended)
    assert depth(crowded).running == 0


def test_a_record_saved_beside_the_push_does_not_keep_the_queue_from_being_emptied(
    crowded: Store, postgres_server: PostgresServer, namespace: str
) -> None:
    crowded.broker.push([a_push("late", expires=0.001), a_push("lost", queue="other")])
    for id in ("late", "lost"):
        _save_beside(postgres_server, namespace, id)
    let_time_pass(crowded, 0.01)
    assert claim(crowded) == []
    assert crowded.broker.purge("other") == 1
    assert [state(crowded, id) for id in ("late", "lost")] == ["cancelled", "cancelled"]


def test_a_record_saved_beside_the_push_does_not_keep_lost_tasks_from_being_buried(
    crowded: Store, postgres_server: PostgresServer, namespace: str
) -> None:
    crowded.broker.push([a_push("x")])
    delivery = claim_one(crowded, lease=0.01)
    crowded.broker.start([delivery.lease], worker=WORKER)
    _save_beside(postgres_server, namespace, "x")
    until(lambda: crowded.broker.reclaim(max_deaths=1).dead == ["x"])
    assert state(crowded, "x") == "failed"


def _save_beside(server: PostgresServer, namespace: str, id: str) -> None:
    """What a save leaves that saw no task because the push was not committed yet."""
    with psycopg.connect(server.url) as connection:
        connection.execute(
            "INSERT INTO stem.records (ns, id, seq, fence, enqueued_at, updated_at, attempt, priority, state, queue, name, meta)"
            " VALUES (%s, %s, nextval('stem.task_seq'), 0, 1, 1, 0, 5, 'queued', 'default', 'demo.add', '{}')",
            [namespace, id],
        )


def _is_waiting(server: PostgresServer) -> bool:
    with psycopg.connect(server.url, autocommit=True) as admin:
        return bool(admin.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone())


def _deadlocks(server: PostgresServer) -> int:
    """As far as the sessions have told; they do so within a second."""
    with psycopg.connect(server.url, autocommit=True) as admin:
        row = admin.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'").fetchone()
    return int(row[0]) if row else 0
