"""What staging promises: unseen until promoted, then all at once, and once only."""

import os
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import msgspec
import psycopg
import pytest
import redis

from conftest import OpenStore
from stem.backends import connect
from stem.contracts.staging import FRONT, Calls, Part, Promotion, UniformBodies, calls_of
from stem.contracts.store import Store
from stem.core import envelope as envelopes
from stem.core.envelope import Envelope, Push
from stem.core.errors import StoreRefused, UsageError
from stem.core.lifecycle import EventKind, State
from stem.core.record import TaskFilter
from stem.core.settings.app import Retention, Settings
from support.background import Errand, in_thread, together
from support.builders import a_push, an_envelope, done, pushes
from support.servers import PostgresServer, RedisServer
from support.stores.calls import WORKER, all_events, claim, claim_one, depth, ids, kinds_of, push_and_claim, record
from support.until import until

MANY = 1500  # several chunks, pages and batches of any store


def stage(store: Store, part: str, *ids: str, job: str = "job", **envelope: object) -> Part:
    store.staging.stage(job, part, calls_of(pushes(*ids, **envelope)))
    return Part(part, len(ids))


def numbered(prefix: str, rows: int) -> list[str]:
    return [f"{prefix}{number:05d}" for number in range(rows)]


def test_nothing_is_seen_before_the_promotion_and_everything_after_it(store: Store) -> None:
    first, second = numbered("a", MANY), numbered("b", 10)
    parts = [stage(store, "0-x", *first[:700]), stage(store, "1-x", *second)]
    stage(store, "0-x", *first[700:])
    parts[0] = Part("0-x", MANY)
    assert (claim(store), all_events(store), depth(store).ready) == ([], [], 0)
    assert store.results.get([*first[:5], *second[:5]]) == {}
    assert store.results.page(TaskFilter(), limit=5).items == []
    assert store.staging.promoted("job") is None

    assert store.staging.promote("job", parts) == Promotion(MANY + 10, 0) == store.staging.promoted("job")
    assert depth(store).ready == MANY + 10
    told = all_events(store)
    assert {event.kind for event in told} == {EventKind.ENQUEUED} and len(told) == MANY + 10
    assert [event.task_id for event in told if event.task_id in first] == first, "in the order of its part"
    assert record(store, "a01499").state is State.QUEUED
    assert ids(claim(store, limit=3)) == first[:3]


def test_calls_that_differ_in_id_and_arguments_alone_are_delivered_as_they_were_staged(store: Store) -> None:
    told = {letter * length: "ü☃\\" * length for letter in "ab" for length in (1, 31, 32, 36, 100)}
    sent = [Push(an_envelope(id, args={"a": text})) for id, text in told.items()]
    store.staging.stage("all are new", "p", calls_of(sent[:5]))
    store.staging.stage("one is known", "p", calls_of(sent[5:]))
    store.broker.push([sent[7]])

    assert store.staging.promote("all are new", [Part("p", 5)]) == Promotion(5, 0)
    assert store.staging.promote("one is known", [Part("p", 5)]) == Promotion(4, 1)
    got = {each.envelope.id: msgspec.json.decode(each.envelope.args) for each in claim(store, limit=20)}
    assert got == {id: {"a": text} for id, text in told.items()}


def alike(*sent: Envelope) -> Calls:
    """Calls that share all but id and arguments, as whoever composes many of them stages them."""
    first = envelopes.encode(msgspec.structs.replace(sent[0], id="", args=msgspec.Raw(b"\x00"))).decode()
    between, behind = first.removeprefix(FRONT).split("\x00")
    args = [bytes(each.args).decode() for each in sent]
    calls = calls_of([Push(each) for each in sent])
    return msgspec.structs.replace(calls, bodies=UniformBodies([each.id for each in sent], between, args, behind))


def test_shared_columns_may_be_staged_apart_from_differing_ones(store: Store) -> None:
    texts = {f"{number:02d}": "ü☃\\\t" * number for number in range(1, 80)}
    drafts = [an_envelope(id, args={"a": text}, headers={"of": id[0]}) for id, text in texts.items()]
    sent = [msgspec.structs.replace(each, enqueued_at=drafts[0].enqueued_at) for each in drafts]
    shared = [[each for each in sent if each.id[0] == digit] for digit in "01234567"]
    more_than_are_kept_apart = range(70)
    own = [an_envelope(f"own{number}", headers={"of": str(number)}) for number in more_than_are_kept_apart]
    for calls in (*shared, *([each] for each in own)):
        store.staging.stage("job", "p", alike(*calls))
    store.staging.stage("again", "p", alike(*shared[0]))

    assert store.staging.promote("job", [Part("p", 149)]) == Promotion(149, 0)
    assert store.staging.promote("again", [Part("p", 9)]) == Promotion(0, 9)
    delivered = {each.envelope.id: each.envelope for each in claim(store, limit=200)}
    assert delivered == {each.id: each for each in (*sent, *own)}
    assert sorted(event.task_id for event in all_events(store)) == sorted(delivered)


def test_a_promoted_call_is_delivered_as_it_was_staged_and_can_be_settled(store: Store) -> None:
    sent = an_envelope(args={"a": "é\\ \n\t\u2028"}, headers={"tenant": "x"}, meta={"by": "spark"}, priority=8)
    large = an_envelope(args={"text": "y" * 5000}, queue="other", visibility_timeout=90.0)
    store.staging.stage("job", "p", calls_of([Push(sent), Push(large)]))
    store.staging.promote("job", [Part("p", 2)])
    delivery = claim_one(store)
    assert delivery.envelope == sent
    assert claim_one(store, "other").envelope == large
    assert (record(store, sent.id).meta, record(store, sent.id).priority) == ({"by": "spark"}, 8)
    assert store.broker.settle([done(delivery, 5)], worker=WORKER) == []
    assert record(store, sent.id).result() == 5
    assert kinds_of(store, sent.id) == [EventKind.ENQUEUED, EventKind.STARTED, EventKind.SUCCEEDED]


def test_due_and_expiry_count_from_the_promotion_by_the_store_s_clock(store: Store) -> None:
    staged = [
        a_push("now"),
        a_push("later", delay=3600),
        a_push("soon", delay=0.05),
        a_push("gone", expires=0.001),
        a_push("urgent", priority=9),
    ]
    store.staging.stage("job", "p", calls_of(staged))
    store.staging.promote("job", [Part("p", 5)])
    counted = depth(store)
    assert counted.delayed + counted.ready == 5 and counted.delayed >= 1
    until(lambda: store.upkeep.now() > record(store, "now").enqueued_at.timestamp() + 0.06)
    assert ids(claim(store)) == ["urgent", "now", "soon"]
    assert record(store, "gone").state is State.CANCELLED
    assert depth(store).delayed == 1


def test_only_the_promoted_tries_count_and_the_others_are_dropped(store: Store) -> None:
    stage(store, "0-first", "a", "b", "c")
    parts = [stage(store, "0-second", "a", "b"), stage(store, "1-first", "d")]
    stage(store, "1-late", "x")
    assert store.staging.promote("job", parts) == Promotion(3, 0)
    assert ids(claim(store)) == ["a", "b", "d"]
    assert claim(store) == []


def test_a_job_is_promoted_once_whatever_its_parts(store: Store) -> None:
    parts = [stage(store, "0-x", "a", "b")]
    assert store.staging.promote("job", parts) == Promotion(2, 0)
    again = [stage(store, "0-y", "c", "d", "e")]
    assert store.staging.promote("job", again) == Promotion(2, 0)
    assert store.staging.promote("job", []) == Promotion(2, 0)
    assert (ids(claim(store)), len(all_events(store))) == (["a", "b"], 2)
    assert store.staging.promote("other", [stage(store, "0-y", "c", job="other")]) == Promotion(1, 0)


def test_known_ids_are_left_alone(store: Store) -> None:
    ended = push_and_claim(store, a_push("ended"))
    store.broker.settle([done(ended, "kept")], worker=WORKER)
    store.broker.push([a_push("waiting", args={"first": True}), a_push("running", queue="run")])
    claim_one(store, "run")
    told = len(all_events(store))
    fresh = numbered("f", 450)
    parts = [stage(store, "p", *fresh[:300], "ended", "waiting", "running", *fresh[300:], "f00001")]
    assert store.staging.promote("job", parts) == Promotion(450, 4)
    assert [event.task_id for event in all_events(store)[told:]] == fresh
    assert record(store, "ended").result() == "kept"
    delivered = claim(store, limit=1000)
    assert ids(delivered) == ["waiting", *fresh]
    assert delivered[0].envelope.arguments() == {"first": True}


def test_a_part_that_is_not_whole_promotes_nothing(store: Store) -> None:
    part = stage(store, "p", "a", "b")
    with pytest.raises(StoreRefused, match=r"'p' of job 'job' the store holds 2 of 3 pushes; nothing was promoted"):
        store.staging.promote("job", [Part("p", 3)])
    with pytest.raises(StoreRefused, match="holds 0 of 1"):
        store.staging.promote("job", [part, Part("lost", 1)])
    assert (claim(store), store.staging.promoted("job")) == ([], None)
    assert store.staging.promote("job", [part]) == Promotion(2, 0), "what is whole can still be promoted"


def test_an_empty_job_can_be_promoted(store: Store) -> None:
    assert store.staging.promote("job", [Part("p", 0)]) == Promotion(0, 0)
    assert store.staging.promote("job", [stage(store, "q", "a")]) == Promotion(0, 0)
    assert claim(store) == []


def test_a_discarded_job_leaves_nothing_and_may_begin_again(store: Store) -> None:
    part = stage(store, "p", "a")
    store.staging.discard("job")
    store.staging.discard("job")
    with pytest.raises(StoreRefused):
        store.staging.promote("job", [part])
    assert store.staging.promote("job", [stage(store, "p", "b")]) == Promotion(1, 0)
    store.staging.discard("job")
    assert ids(claim(store)) == ["b"]
    assert store.staging.promoted("job") == Promotion(1, 0)


def test_jobs_and_namespaces_do_not_meet(open_store: OpenStore) -> None:
    here, there = open_store(), open_store("elsewhere")
    part = stage(here, "p", "a")
    stage(there, "p", "b")
    stage(here, "p", "c", job="another")
    assert here.staging.promote("job", [part]) == Promotion(1, 0)
    assert there.staging.promoted("job") is None
    assert (ids(claim(here)), claim(there)) == (["a"], [])


def test_claimers_see_none_of_a_job_or_all_of_it(open_store: OpenStore) -> None:
    store, watcher = open_store(), open_store()
    names = numbered("t", 4000)
    part = stage(store, "p", *names)
    seen: set[int] = set()

    def watch() -> None:
        while 4000 not in seen:
            found = len(watcher.results.get([names[0], names[1999], names[3999]]))
            seen.update((depth(watcher).ready, {0: 0, 3: 4000}.get(found, found)))

    watching = in_thread(watch)
    waiting = in_thread(lambda: watcher.broker.wait(["default"], timeout_seconds=20))
    store.staging.promote("job", [part])
    watching.result(30)
    assert seen <= {0, 4000}
    assert waiting.result(30), "who waits for the queue is woken"


def test_promotions_of_one_job_at_once_add_it_once(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(4)]
    part = stage(stores[0], "p", *numbered("t", 300))
    promote: list[Callable[[], Promotion | None]] = [lambda s=s: _promoted_or_lost(s, part) for s in stores]  # type: ignore[misc]
    answers = together(promote)
    assert Promotion(300, 0) in answers and set(answers) <= {Promotion(300, 0), None}
    assert (depth(stores[0]).ready, len(all_events(stores[0]))) == (300, 300)


def _promoted_or_lost(store: Store, part: Part) -> Promotion | None:
    try:
        return store.staging.promote("job", [part])
    except StoreRefused:
        return None


def _stage_for_ever(open_one: Callable[[], Store]) -> None:
    store = open_one()
    for number in count():
        store.staging.stage("job", "doomed", calls_of(pushes(*numbered(f"d{number}-", 500))))
        store.broker.push([a_push(f"alive-{number}", queue="alive")])


def test_a_stager_that_is_killed_harms_no_other(durable_url: str, namespace: str, durable_store: Store) -> None:
    store = durable_store
    part = stage(store, "good", "a", "b")
    errand = Errand(_stage_for_ever, durable_url, namespace)
    until(lambda: depth(store, "alive").ready >= 2, seconds=30)
    errand.kill()
    store.staging.stage("job", "good", calls_of(pushes("c")))
    assert store.staging.promote("job", [Part("good", 3)]) == Promotion(part.rows + 1, 0)
    assert ids(claim(store)) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", 7])
def test_names_are_checked_before_anything_is_written(store: Store, name: str) -> None:
    calls = calls_of(pushes("a"))
    for job, part in ((name, "p"), ("job", name)):
        with pytest.raises(UsageError, match="cannot name a job"):
            store.staging.stage(job, part, calls)


def test_a_unique_call_cannot_be_staged() -> None:
    with pytest.raises(UsageError, match="unique call cannot be staged"):
        calls_of([a_push("a", unique="key")])


def test_a_promotion_is_remembered_as_long_as_results_are(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(results_seconds=0.2))
    store.staging.promote("job", [stage(store, "p", "a")])

    def is_forgotten() -> bool:
        store.upkeep.prune()
        return store.staging.promoted("job") is None

    until(is_forgotten)


def test_leftovers_of_a_dead_job_are_pruned_after_a_day_on_sqlite(tmp_path: Path) -> None:
    store = connect(f"sqlite:///{tmp_path}/stem.db", Settings())
    stage(store, "p", "a", job="old")
    file = min((tmp_path / "stem.db-stage").iterdir())
    os.utime(file, (time.time() - 86500, time.time() - 86500))
    stage(store, "p", "a", job="young")
    assert (store.upkeep.prune(), store.upkeep.prune()) == (1, 0)
    assert not file.exists()
    assert store.staging.promote("young", [Part("p", 1)]) == Promotion(1, 0)
    assert list((tmp_path / "stem.db-stage").iterdir()) == [], "and nothing stays of a job that has ended"
    store.upkeep.close()


def test_the_write_ahead_log_of_a_promotion_on_sqlite_is_checkpointed_by_itself(tmp_path: Path) -> None:
    store = connect(f"sqlite:///{tmp_path}/stem.db", Settings())
    store.staging.promote("job", [stage(store, "p", *numbered("a", MANY))])
    until(lambda: b"a01499" in (tmp_path / "stem.db").read_bytes())
    assert len(claim(store, limit=MANY + 1)) == MANY
    store.upkeep.close()


@pytest.fixture
def on_postgres(postgres_server: PostgresServer, namespace: str) -> Iterator[Store]:
    store = connect(postgres_server.url, Settings(namespace=namespace))
    yield store
    store.upkeep.close()


def _table(conn: psycopg.Connection, store: Store, job: str) -> str:
    ((name,),) = conn.execute("SELECT stem.stage_table(%s, %s)", (store.namespace, job)).fetchall()
    return str(name)


def _staged_in(conn: psycopg.Connection, store: Store, job: str) -> int | None:
    """None where the job has no table any more."""
    table = _table(conn, store, job)
    if conn.execute("SELECT to_regclass(%s)", (f"stem.{table}",)).fetchone() == (None,):
        return None
    ((rows,),) = conn.execute(f"SELECT count(*) FROM stem.{table}".encode()).fetchall()
    return int(rows)


def test_leftovers_of_a_dead_job_are_pruned_after_a_day_on_postgres(
    on_postgres: Store, postgres_server: PostgresServer
) -> None:
    stage(on_postgres, "p", "a", job="old")
    stage(on_postgres, "p", "a", job="young")
    with psycopg.connect(postgres_server.url, autocommit=True) as conn:
        conn.execute("UPDATE stem.stage_jobs SET staged_at = staged_at - 86500 WHERE job = 'old'")
        on_postgres.upkeep.prune()
        assert [_staged_in(conn, on_postgres, job) for job in ("old", "young")] == [None, 1]
    assert on_postgres.staging.promote("young", [Part("p", 1)]) == Promotion(1, 0)


def test_a_crash_of_postgres_that_emptied_what_was_staged_is_told(
    on_postgres: Store, postgres_server: PostgresServer
) -> None:
    part = stage(on_postgres, "p", "a", "b")
    with psycopg.connect(postgres_server.url, autocommit=True) as conn:
        conn.execute(f"TRUNCATE stem.{_table(conn, on_postgres, 'job')}".encode())
    with pytest.raises(StoreRefused, match="run the job again"):
        on_postgres.staging.promote("job", [part])
    on_postgres.staging.discard("job")


def test_all_that_is_staged_on_redis_expires_by_itself(redis_server: RedisServer, namespace: str) -> None:
    store = connect(redis_server.url, Settings(namespace=namespace))
    stage(store, "p", "a")
    with redis.Redis.from_url(redis_server.url) as client:
        keys = list(client.scan_iter(f"stem:{{{namespace}}}:stage:*"))
        assert len(keys) == 2 and all(0 < client.ttl(key) <= 86400 for key in keys)
        store.staging.promote("job", [Part("p", 1)])
        assert list(client.scan_iter(f"stem:{{{namespace}}}:stage:*")) == []
        (promoted,) = client.scan_iter(f"stem:{{{namespace}}}:promoted:*")
        assert client.ttl(promoted) > 6 * 86400
    store.upkeep.close()


def test_redis_refuses_a_job_that_would_stop_it_for_long(
    redis_server: RedisServer, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stem.backends.redis.staging.MOST", 3)
    store = connect(redis_server.url, Settings(namespace=namespace))
    part = stage(store, "p", "a", "b", "c", "d")
    with pytest.raises(StoreRefused, match="'job' has 4 pushes"):
        store.staging.promote("job", [part])
    assert claim(store) == []
    store.upkeep.close()
