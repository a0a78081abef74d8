"""Large writes into Postgres: their tables become part of the store as they are, whoever is in the way, and go when drained."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql

from stem.backends import connect
from stem.backends.postgres import housekeeping, staging
from stem.contracts.staging import Part, Promotion, calls_of
from stem.contracts.store import Store
from stem.core.config import Retention, Settings
from stem.core.delivery import DeadFilter
from stem.core.errors import StoreRefused
from stem.core.lifecycle import EventKind, State
from stem.core.record import TaskFilter
from support.asking import WORKER, all_events, claim, claim_one, depth, ids, kinds_of, record
from support.beside import in_thread, is_waiting, together
from support.builders import a_push, dead, done, pushes, retry
from support.servers import PostgresServer
from support.until import until

ROWS = 1200  # of one part: two of them are worth tables of their own, as the bounds are here
BATCH = ROWS // 2
MOST = 8  # such tables of tasks that a store has at once


class Admin:
    """What the server says of the test's schema."""

    def __init__(self, url: str, schema: str) -> None:
        self.url = url
        self.schema = schema
        self.conn = psycopg.connect(url, autocommit=True)

    def below(self, table: str) -> list[str]:
        found = self.conn.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass ORDER BY 1",
            [f"{self.schema}.{table}"],
        )
        return [name for (name,) in found.fetchall()]

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


@pytest.fixture(autouse=True)
def _low_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_MANY", BATCH)
    monkeypatch.setattr(staging, "_WORTHWHILE", 2 * ROWS)


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
    """The ids of a job that has become tables of the store."""
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


def test_a_large_write_is_not_copied_and_is_seen_like_any_other(store: Store, admin: Admin) -> None:
    store.broker.push([a_push("before", priority=9)])
    parts = [stage(store, part, numbered(part)) for part in ("a", "b")]
    assert (depth(store).ready, len(all_events(store)), store.results.get(["a000000"])) == (1, 1, {})
    assert ids(claim(store, limit=5)) == ["before"]

    began = store.upkeep.now()
    assert store.staging.promote("job", parts) == Promotion(2 * ROWS, 0) == store.staging.promoted("job")
    assert store.staging.promote("job", parts) == Promotion(2 * ROWS, 0), "twice adds nothing"
    assert admin.ask("SELECT count(*) FROM ONLY stem.messages") == 1
    assert len(admin.below("messages")) == len(admin.below("events")) == 1, "one stager writes one table"
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


def test_what_can_happen_to_a_task_happens_to_one_in_a_table_of_its_own(store: Store, admin: Admin) -> None:
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


def test_ids_of_a_large_write_are_known_to_every_push_after_it(store: Store) -> None:
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


def test_of_two_tries_at_a_part_the_one_that_counts_becomes_tasks_in_its_order(store: Store, admin: Admin) -> None:
    stage(store, "a-lost", numbered("a")[:BATCH])
    parts = [stage(store, "a-kept", numbered("a")), stage(store, "b", numbered("b"))]
    stage(store, "b-late", numbered("b"))
    assert store.staging.promote("job", parts) == Promotion(2 * ROWS, 0)
    assert ids(claim(store, limit=ROWS)) == numbered("a")
    assert tries(store) == dict.fromkeys(numbered("b"), 1)
    assert admin.below("messages") == [], "they were copied"
    assert len(all_events(store)) == 2 * ROWS


def test_an_id_that_two_parts_have_is_one_task(store: Store) -> None:
    parts = [stage(store, "a", numbered("a")), stage(store, "b", [*numbered("a")[-BATCH:], *numbered("b")])]
    assert store.staging.promote("job", parts) == Promotion(2 * ROWS, BATCH)
    assert tries(store) == dict.fromkeys([*numbered("a"), *numbered("b")], 1)
    assert len(all_events(store)) == 2 * ROWS


def test_a_part_keeps_its_order_when_some_of_it_cannot_go_into_a_slot(store: Store, admin: Admin) -> None:
    plain = stage(store, "a", numbered("a"))
    soon = [a_push(f"b{number}", expires=3600.0) for number in range(50)]
    store.staging.stage("job", "a", calls_of(soon))
    stage(store, "a", numbered("c", BATCH))
    other = stage(store, "z", numbered("z"))
    parts = [Part("a", plain.rows + 50 + BATCH), other]
    assert store.staging.promote("job", parts) == Promotion(2 * ROWS + BATCH + 50, 0)
    assert len(admin.below("messages")) == 1
    of_a = [id for id in tries(store) if not id.startswith("z")]
    assert of_a == [*numbered("a"), *(push.envelope.id for push in soon), *numbered("c", BATCH)]


def test_two_stagers_write_two_tables_and_a_late_one_adds_nothing(store: Store, admin: Admin) -> None:
    with opened(admin) as other:
        parts = together([lambda: stage(store, "a", numbered("a")), lambda: stage(other, "b", numbered("b"))])
        assert store.staging.promote("job", parts) == Promotion(2 * ROWS, 0)
        assert 1 <= len(admin.below("messages")) <= 2
        stage(other, "late", numbered("a"))
    assert depth(store).ready == 2 * ROWS
    assert admin.tables("staged%") > 0
    admin.conn.execute(f"UPDATE {admin.schema}.stage_jobs SET staged_at = staged_at - 86500".encode())
    until(lambda: store.upkeep.prune() == 0)
    assert admin.tables("staged%") == 0
    assert tries(store) == dict.fromkeys([*numbered("a"), *numbered("b")], 1)


def test_a_promotion_waits_for_one_that_still_stages_and_leaves_it_out(store: Store, admin: Admin) -> None:
    parts = [stage(store, part, numbered(part)) for part in ("a", "b")]
    ((slot,),) = admin.conn.execute(f"SELECT tasks FROM {admin.schema}.stage_slots('test', 'job')".encode()).fetchall()
    with psycopg.connect(admin.url) as late:
        late.execute(
            f"INSERT INTO {admin.schema}.{slot} (part, id, priority, queue, name, body)"
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


def test_drained_tables_are_dropped_and_one_in_use_stays(store: Store, admin: Admin) -> None:
    promoted(store)
    store.upkeep.prune()
    assert len(admin.below("messages")) == 1
    while got := claim(store, limit=5000):
        store.broker.settle([done(delivery) for delivery in got], worker=WORKER)
    with psycopg.connect(admin.url) as reader:
        reader.execute(f"SELECT count(*) FROM {admin.schema}.messages".encode())
        store.upkeep.prune()
        assert len(admin.below("messages")) == 1, "somebody reads it"

    def is_gone() -> bool:
        """Not at once if the server vacuums it at the moment."""
        store.upkeep.prune()
        return admin.below("messages") == []

    until(is_gone)
    assert len(admin.below("events")) == 1
    store.broker.push([a_push("after")])
    assert ids(claim(store)) == ["after"]


def test_events_in_tables_of_their_own_are_kept_as_long_as_others(admin: Admin) -> None:
    with opened(admin, retention=Retention(events_count=ROWS)) as store:
        promoted(store)
        kept = all_events(store)[ROWS:]
        until(lambda: store.upkeep.prune() == 0, seconds=60)
        assert [event.offset for event in all_events(store)] == [event.offset for event in kept]
    with opened(admin, retention=Retention(events_seconds=0.001)) as store:
        until(lambda: store.upkeep.prune() == 0 and admin.below("events") == [], seconds=60)
        assert all_events(store) == []
        assert depth(store).ready == 2 * ROWS


def test_no_more_tables_are_added_than_claims_can_bear(store: Store, admin: Admin) -> None:
    for number in range(MOST):
        promoted(store, f"job{number}")
    assert len(admin.below("messages")) == MOST - 1
    assert depth(store).ready == MOST * 2 * ROWS
    assert ids(claim(store, limit=2)) == numbered("job0-a")[:2]


def test_namespaces_and_queues_are_apart_in_them_too(store: Store, admin: Admin) -> None:
    promoted(store, queue="bulk")
    with opened(admin, "neighbour") as neighbour:
        promoted(neighbour, queue="bulk")
        began = time.process_time()
        assert (claim(store), ids(claim(store, "bulk", limit=1))) == ([], ["job-a000000"])
        assert time.process_time() - began < 1.0
        assert store.broker.purge("bulk") == 2 * ROWS - 1
        assert depth(neighbour, "bulk").ready == 2 * ROWS


def test_they_are_vacuumed_as_the_others_are(store: Store, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    promoted(store)
    monkeypatch.setattr(housekeeping, "_VACUUM_EVERY_ENDINGS", 50)
    monkeypatch.setattr(housekeeping, "_VACUUM_EVERY_SECONDS", 0.0)
    (table,) = admin.below("messages")

    def is_vacuumed() -> bool:
        store.broker.settle([done(delivery) for delivery in claim(store, limit=50)], worker=WORKER)
        return admin.ask(f"SELECT pg_stat_get_vacuum_count('{table}'::regclass)") > 0

    until(is_vacuumed, every=0.05)


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


def test_a_publication_of_the_store_takes_their_changes(store: Store, admin: Admin) -> None:
    first, *_ = promoted(store)
    admin.conn.execute(f"CREATE PUBLICATION {admin.schema} FOR TABLES IN SCHEMA {admin.schema}".encode())
    try:
        assert store.broker.settle([done(claim_one(store))], worker=WORKER) == []
        assert record(store, first).state is State.SUCCEEDED
    finally:
        admin.conn.execute(f"DROP PUBLICATION {admin.schema}".encode())


def test_a_store_of_the_version_before_takes_them_too(store: Store, admin: Admin) -> None:
    store.staging.stage("job", "old", calls_of(pushes("old")))
    admin.conn.execute(
        f"ALTER TABLE {admin.schema}.stage_parts DROP COLUMN slotted, DROP COLUMN is_rising;"
        f"UPDATE {admin.schema}.version SET version = 8".encode()
    )
    with opened(admin) as upgraded:
        parts = [Part("old", 1), *(stage(upgraded, part, numbered(part)) for part in ("a", "b"))]
        assert upgraded.staging.promote("job", parts) == Promotion(2 * ROWS + 1, 0)
        assert len(admin.below("messages")) == 1


def test_a_role_that_does_not_own_the_tables_has_its_pushes_copied(store: Store, admin: Admin) -> None:
    role = f"guest_{admin.schema}"
    admin.conn.execute(f"CREATE ROLE {role} LOGIN".encode())
    try:
        for kind in ("SCHEMA {s}", "ALL TABLES IN SCHEMA {s}", "ALL SEQUENCES IN SCHEMA {s}"):
            admin.conn.execute(f"GRANT ALL ON {kind.format(s=admin.schema)} TO {role}".encode())
        url = f"{admin.url.replace('postgres:@', f'{role}:@')}&schema={admin.schema}"
        guest = connect(url, Settings(namespace="test", timeout_seconds=30.0))
        promoted(guest)
        guest.upkeep.close()
        assert (depth(store).ready, admin.below("messages")) == (2 * ROWS, [])
    finally:
        admin.conn.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())
