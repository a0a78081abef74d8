"""Large jobs staged in Postgres become tasks like any other, whoever stages, pushes or crashes meanwhile."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql

from stem.backends import connect
from stem.contracts.staging import Part, Promotion, calls_of
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter
from stem.core.errors import StoreRefused
from stem.core.lifecycle import EventKind, State
from stem.core.record import TaskFilter
from stem.core.settings.app import Retention, Settings
from support.background import in_thread, is_waiting, together
from support.builders import a_push, dead, done, pushes, retry
from support.servers import PostgresServer
from support.stores.calls import WORKER, all_events, claim, claim_one, depth, ids, kinds_of, record
from support.until import until

ROWS = 1200  # of one part
BATCH = ROWS // 2


class Admin:
    """What the server says of the test's schema."""

    def __init__(self, url: str, schema: str) -> None:
        self.url = url
        self.schema = schema
        self.conn = psycopg.connect(url, autocommit=True)

    def tables(self, like: str) -> int:
        counted = self.conn.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = %s AND tablename LIKE %s", [self.schema, like]
        ).fetchall()
        return int(counted[0][0])

    def ask(self, query: str) -> int:
        ((answer,),) = self.conn.execute(query.replace("stem.", f"{self.schema}.").encode()).fetchall()
        return int(answer)


@pytest.fixture
def admin(postgres_server: PostgresServer, namespace: str) -> Iterator[Admin]:
    admin = Admin(postgres_server.url, namespace)
    yield admin
    admin.conn.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(namespace)))
    admin.conn.close()


@pytest.fixture
def store(admin: Admin) -> Iterator[Store]:
    with opened(admin) as store:
        yield store


@contextmanager
def opened(admin: Admin, namespace: str = "test", retention: Retention | None = None) -> Iterator[Store]:
    settings = Settings(namespace=namespace, timeout_seconds=30.0, retention=retention or Retention())
    store = connect(f"{admin.url}&schema={admin.schema}", settings)
    yield store
    store.upkeep.close()


def numbered(prefix: str, rows: int = ROWS) -> list[str]:
    return [f"{prefix}{number:06d}" for number in range(rows)]


def stage(store: Store, part: str, ids: list[str], job: str = "job", **envelope: object) -> Part:
    for at in range(0, len(ids), BATCH):
        store.staging.stage(job, part, calls_of(pushes(*ids[at : at + BATCH], **envelope)))
    return Part(part, len(ids))


def promoted(store: Store, job: str = "job", **envelope: object) -> list[str]:
    """The ids of a job that was promoted."""
    parts = {f"{job}-{letter}": numbered(f"{job}-{letter}") for letter in "ab"}
    staged = [stage(store, name, ids, job, **envelope) for name, ids in parts.items()]
    assert store.staging.promote(job, staged) == Promotion(2 * ROWS, 0)
    return [id for ids in parts.values() for id in ids]


def tries(store: Store) -> dict[str, int]:
    """How often each id is there."""
    found: dict[str, int] = {}
    while got := claim(store, limit=5000):
        for id in ids(got):
            found[id] = found.get(id, 0) + 1
    return found


def test_a_large_job_is_seen_like_any_other_push(store: Store, admin: Admin) -> None:
    store.broker.push([a_push("before", priority=9)])
    parts = [stage(store, part, numbered(part)) for part in ("a", "b")]
    assert (depth(store).ready, len(all_events(store)), store.results.get(["a000000"])) == (1, 1, {})
    assert ids(claim(store, limit=5)) == ["before"]

    began = store.upkeep.now()
    assert store.staging.promote("job", parts) == Promotion(2 * ROWS, 0) == store.staging.promoted("job")
    assert store.staging.promote("job", parts) == Promotion(2 * ROWS, 0), "twice adds nothing"
    assert admin.tables("staged%") == 0
    assert depth(store).ready == 2 * ROWS
    told = [event for event in all_events(store) if event.task_id != "before"]
    assert [event.task_id for event in told] == [*numbered("a"), *numbered("b")]
    assert {event.kind for event in told} == {EventKind.ENQUEUED}
    assert {event.enqueued_at for event in told} == {told[0].at} and told[0].at.timestamp() >= began - 0.001
    one = record(store, "b000007")
    assert (one.state, one.attempt, one.priority, one.queue) == (State.QUEUED, 0, 5, "default")
    assert ids(store.results.page(TaskFilter(), limit=2).items) == numbered("b")[:-3:-1]
    assert ids(claim(store, limit=3)) == numbered("a")[:3]
    assert [each.id for each in store.broker.peek("default", limit=2)] == numbered("a")[3:5]


def test_tasks_of_a_large_job_behave_as_any_other(store: Store, admin: Admin) -> None:
    first, second, third, fourth, *_ = promoted(store)
    delivered = claim(store, limit=4)
    assert ids(delivered) == [first, second, third, fourth]
    ends = [done(delivered[0], "fine"), retry(delivered[1], delay=0.0), dead(delivered[2])]
    assert store.broker.settle(ends, worker=WORKER) == []
    assert (record(store, first).state, record(store, first).result()) == (State.SUCCEEDED, "fine")
    assert record(store, second).state is State.RETRIED
    assert kinds_of(store, first) == [EventKind.ENQUEUED, EventKind.STARTED, EventKind.SUCCEEDED]
    assert ids(store.deadletters.page(DeadFilter(), limit=5).items) == [third]
    assert len(store.deadletters.replay(DeadFilter(), delay_seconds=0.0)) == 1
    assert record(store, third).state is State.QUEUED
    assert store.broker.renew([delivered[3].lease], lease_seconds=90.0) == []
    again = claim_one(store)
    assert (again.lease.id, again.attempt) == (second, 1)
    assert store.broker.purge("default") == 2 * ROWS - 3
    assert (depth(store).ready, depth(store).running) == (0, 2)
    assert admin.ask("SELECT count(*) FROM stem.messages") == 2


def test_ids_of_a_large_job_are_known_to_every_push_after_it(store: Store) -> None:
    first, second, third, *rest = promoted(store)
    (alone,) = store.broker.push([a_push(first)])
    batch = store.broker.push([a_push(second), a_push("new")])
    assert ([alone.created], [each.created for each in batch]) == ([False], [False, True])
    (keyed,) = store.broker.push([a_push(third, unique="key")])
    assert not keyed.created
    few = stage(store, "p", [*rest[:10], "new too"], "few")
    assert store.staging.promote("few", [few]) == Promotion(1, 10)
    same = [stage(store, f"job-{letter}", numbered(f"job-{letter}"), "again") for letter in "ab"]
    assert store.staging.promote("again", same) == Promotion(0, 2 * ROWS)
    assert tries(store) == dict.fromkeys([first, second, third, *rest, "new", "new too"], 1)
    assert len(all_events(store)) == 2 * ROWS + 2


def test_of_two_tries_at_a_part_the_one_that_counts_becomes_tasks_in_its_order(store: Store) -> None:
    stage(store, "a-lost", numbered("a")[:BATCH])
    parts = [stage(store, "a-kept", numbered("a")), stage(store, "b", numbered("b"))]
    stage(store, "b-late", numbered("b"))
    assert store.staging.promote("job", parts) == Promotion(2 * ROWS, 0)
    assert ids(claim(store, limit=ROWS)) == numbered("a")
    assert tries(store) == dict.fromkeys(numbered("b"), 1)
    assert len(all_events(store)) == 2 * ROWS


def test_an_id_that_two_parts_have_is_one_task(store: Store) -> None:
    parts = [stage(store, "a", numbered("a")), stage(store, "b", [*numbered("a")[-BATCH:], *numbered("b")])]
    assert store.staging.promote("job", parts) == Promotion(2 * ROWS, BATCH)
    assert tries(store) == dict.fromkeys([*numbered("a"), *numbered("b")], 1)
    assert len(all_events(store)) == 2 * ROWS


def test_a_part_whose_batches_differ_keeps_its_order(store: Store) -> None:
    plain = stage(store, "a", numbered("a"))
    soon = [a_push(f"b{number}", expires=3600.0) for number in range(50)]
    store.staging.stage("job", "a", calls_of(soon))
    stage(store, "a", numbered("c", BATCH))
    other = stage(store, "z", numbered("z"))
    parts = [Part("a", plain.rows + 50 + BATCH), other]
    assert store.staging.promote("job", parts) == Promotion(2 * ROWS + BATCH + 50, 0)
    of_a = [id for id in tries(store) if not id.startswith("z")]
    assert of_a == [*numbered("a"), *(push.envelope.id for push in soon), *numbered("c", BATCH)]


def test_two_stage_beside_each_other_and_a_late_one_adds_nothing(store: Store, admin: Admin) -> None:
    with opened(admin) as other:
        parts = together([lambda: stage(store, "a", numbered("a")), lambda: stage(other, "b", numbered("b"))])
        assert store.staging.promote("job", parts) == Promotion(2 * ROWS, 0)
        stage(other, "late", numbered("a"))
    assert depth(store).ready == 2 * ROWS
    assert admin.tables("staged%") > 0
    admin.conn.execute(f"UPDATE {admin.schema}.stage_jobs SET staged_at = staged_at - 86500".encode())
    until(lambda: store.upkeep.prune() == 0)
    assert admin.tables("staged%") == 0
    assert tries(store) == dict.fromkeys([*numbered("a"), *numbered("b")], 1)


def test_a_promotion_waits_for_one_that_still_stages_and_leaves_it_out(store: Store, admin: Admin) -> None:
    parts = [stage(store, part, numbered(part)) for part in ("a", "b")]
    query = f"SELECT {admin.schema}.stage_table('test', 'job')"
    ((table,),) = admin.conn.execute(query.encode()).fetchall()
    with psycopg.connect(admin.url) as late:
        late.execute(
            f"INSERT INTO {admin.schema}.{table} (part, id, priority, queue, name, body)"
            " VALUES ('late', 'zombie', 5, 'default', 'demo.add', '{}')".encode()
        )
        promotion = in_thread(lambda: store.staging.promote("job", parts))
        assert is_waiting(promotion, seconds=0.5)
        late.commit()
        assert promotion.result(60) == Promotion(2 * ROWS, 0)
    assert "zombie" not in tries(store)
    assert len(all_events(store)) == 2 * ROWS


def test_an_open_transaction_with_a_push_delays_nobody_and_its_id_is_known(store: Store, admin: Admin) -> None:
    parts = [stage(store, part, numbered(part)) for part in ("a", "b")]
    with psycopg.connect(admin.url) as mine:
        store.broker.push([a_push("a000100", args={"a": "mine"})], connection=mine)
        promotion = in_thread(lambda: store.staging.promote("job", parts))
        assert is_waiting(promotion, seconds=2.0), (
            "it has given up the tables, and waits for the one id as any push does"
        )
        store.broker.push([a_push("other")])
        assert "other" in ids(claim(store, limit=10))
        mine.commit()
        assert promotion.result(60) == Promotion(2 * ROWS - 1, 1)
    assert set(tries(store).values()) == {1}
    assert len(all_events(store)) == 2 * ROWS + 1


def test_a_promotion_that_a_deadlock_has_ended_is_made_again(store: Store, admin: Admin) -> None:
    part = stage(store, "p", ["first", "second"])
    with psycopg.connect(admin.url) as mine:
        mine.execute("SET deadlock_timeout = '60s'")  # so that the promotion is the one that is ended
        store.broker.push([a_push("second")], connection=mine)
        promotion = in_thread(lambda: store.staging.promote("job", [part]))
        until(
            lambda: admin.ask(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'stage_promote'"
            )
        )
        store.broker.push([a_push("first")], connection=mine)
        mine.commit()
    assert promotion.result(60) == Promotion(0, 2)
    assert tries(store) == {"first": 1, "second": 1}


def test_promotions_of_the_same_ids_in_other_orders_end_one_after_the_other(store: Store) -> None:
    every = [f"{number:05}" for number in range(10 * ROWS)]
    up, down = stage(store, "p", every, "up"), stage(store, "p", every[::-1], "down")
    found = together([lambda: store.staging.promote("up", [up]), lambda: store.staging.promote("down", [down])])
    assert sum(each.created for each in found) == sum(each.known for each in found) == len(every)
    assert len(all_events(store)) == len(every)


def test_one_who_pushes_the_same_ids_at_the_same_time_doubles_none(store: Store, admin: Admin) -> None:
    for job in ("one", "two", "three"):
        every = [*numbered(f"{job}-a"), *numbered(f"{job}-b")]
        parts = [stage(store, name, numbered(name), job) for name in (f"{job}-a", f"{job}-b")]
        over, mine = threading.Event(), 0

        def push(every: list[str] = every, over: threading.Event = over) -> int:
            created = 0
            for at in range(0, len(every), 7):
                created += sum(receipt.created for receipt in store.broker.push([a_push(every[at])]))
                if over.is_set() and at > 700:
                    break
            return created

        pusher = in_thread(push)
        promotion = store.staging.promote(job, parts)
        over.set()
        mine = pusher.result(60)
        assert promotion.created + mine == len(every)
        assert tries(store) == dict.fromkeys(every, 1)
    assert len(all_events(store)) == 6 * ROWS


def test_events_of_a_large_job_are_kept_as_long_as_others(admin: Admin) -> None:
    with opened(admin, retention=Retention(events_count=ROWS)) as store:
        promoted(store)
        kept = all_events(store)[ROWS:]
        until(lambda: store.upkeep.prune() == 0, seconds=60)
        assert [event.offset for event in all_events(store)] == [event.offset for event in kept]
    with opened(admin, retention=Retention(events_seconds=0.001)) as store:
        until(lambda: store.upkeep.prune() == 0, seconds=60)
        assert all_events(store) == []
        assert depth(store).ready == 2 * ROWS


def test_namespaces_and_queues_of_large_jobs_are_apart(store: Store, admin: Admin) -> None:
    promoted(store, queue="bulk")
    with opened(admin, "neighbour") as neighbour:
        promoted(neighbour, queue="bulk")
        began = time.process_time()
        assert (claim(store), ids(claim(store, "bulk", limit=1))) == ([], ["job-a000000"])
        assert time.process_time() - began < 1.0
        assert store.broker.purge("bulk") == 2 * ROWS - 1
        assert depth(neighbour, "bulk").ready == 2 * ROWS


def test_a_crash_of_the_server_leaves_all_of_a_promotion_or_what_is_staged_is_refused() -> None:
    crashing = PostgresServer()
    try:
        settings = Settings(namespace="test", timeout_seconds=30.0)
        first = connect(crashing.url, settings)
        every = promoted(first)
        part = stage(first, "p", numbered("p", 2 * ROWS), "second")
        first.upkeep.close()
        crashing.crash()
        again = connect(crashing.url, settings)
        assert depth(again).ready == len(every) == len(all_events(again))
        with pytest.raises(StoreRefused, match="run the job again"):
            again.staging.promote("second", [part])
        assert depth(again).ready == len(every)
        # What the crash has left of the old tries does not count, whoever stages under the same name.
        fresh = stage(again, "q", numbered("q", 2 * ROWS), "second")
        assert again.staging.promote("second", [fresh]) == Promotion(2 * ROWS, 0)
        assert tries(again) == dict.fromkeys([*every, *numbered("q", 2 * ROWS)], 1)
        again.upkeep.close()
    finally:
        crashing.close()


def test_a_role_that_does_not_own_the_tables_can_promote(store: Store, admin: Admin) -> None:
    role = f"guest_{admin.schema}"
    admin.conn.execute(f"CREATE ROLE {role} LOGIN".encode())
    try:
        for kind in ("SCHEMA {s}", "ALL TABLES IN SCHEMA {s}", "ALL SEQUENCES IN SCHEMA {s}"):
            admin.conn.execute(f"GRANT ALL ON {kind.format(s=admin.schema)} TO {role}".encode())
        url = f"{admin.url.replace('postgres:@', f'{role}:@')}&schema={admin.schema}"
        guest = connect(url, Settings(namespace="test", timeout_seconds=30.0))
        promoted(guest)
        guest.upkeep.close()
        assert depth(store).ready == 2 * ROWS
    finally:
        admin.conn.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())
