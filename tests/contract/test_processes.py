"""Stores that other processes share: made by many at once, kept after all have gone."""

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, Depth
from stem.core.revoke import RevokeRequest
from stem.core.settings.app import Settings
from support.background import Errand, barrier
from support.builders import a_push, done, retry
from support.stores.calls import (
    WORKER,
    all_events,
    claim,
    depth,
    fail_for_good,
    ids,
    kinds_of,
    push_and_claim,
    record,
    state,
)
from support.stores.process_targets import claim_all, push_one


def test_fifty_processes_connect_at_once_and_each_pushes_its_task(durable_url: str, namespace: str) -> None:
    gate = barrier(50)
    children = [Errand(push_one, durable_url, namespace, f"child-{n}", gate) for n in range(50)]
    assert [child.result(seconds=90) for child in children] == [True] * 50
    store = connect(durable_url, Settings(namespace=namespace))
    assert depth(store) == Depth(ready=50)
    assert sorted(ids(claim(store))) == sorted(f"child-{n}" for n in range(50))
    assert len(all_events(store)) == 50
    store.upkeep.close()


def test_processes_never_hold_one_delivery(durable_store: Store, durable_url: str, namespace: str) -> None:
    durable_store.broker.push([a_push(f"n{n}", priority=n % 10) for n in range(300)])
    gate = barrier(4)
    children = [Errand(claim_all, durable_url, namespace, gate, 300) for _ in range(4)]
    got = [id for child in children for id in child.result()]
    assert sorted(got) == sorted(f"n{n}" for n in range(300))
    assert durable_store.broker.depth() == {}
    assert sum(event.kind == "succeeded" for event in all_events(durable_store)) == 300


def test_everything_survives_close_and_reopen(durable_url: str, namespace: str) -> None:
    settings = Settings(namespace=namespace)
    store = connect(durable_url, settings)
    fail_for_good(store, "dead")
    held = push_and_claim(store, a_push("held", args={"x": 1}))
    store.broker.start([held.lease], worker=WORKER)
    store.broker.settle([done(push_and_claim(store, a_push("done")), {"v": 1})], worker=WORKER)
    store.broker.settle([retry(push_and_claim(store, a_push("again")), 3600)], worker=WORKER)
    store.broker.push([a_push("ready", priority=2, unique="k"), a_push("later", delay=3600)])
    store.revokes.put([RevokeRequest(task_id="r", reason="no")])
    fence = store.locks.acquire("l", owner="me", ttl_seconds=60)
    store.mail.send("box", b"m", ttl_seconds=60)
    events, head = all_events(store), store.events.head()
    store.upkeep.close()

    store = connect(durable_url, settings)
    assert (all_events(store), store.events.head()) == (events, head)
    assert depth(store) == Depth(ready=1, delayed=2, running=1, dead=1)
    assert (state(store, "held"), record(store, "done").result(), record(store, "again").attempt) == (
        "running",
        {"v": 1},
        1,
    )
    assert store.broker.settle([done(held, "still mine")], worker=WORKER) == []
    assert store.broker.push([a_push("dup", unique="k")])[0].id == "ready"
    assert ids(store.deadletters.page(DeadFilter(), limit=10).items) == ["dead"]
    assert store.revokes.get(["r"])["r"].reason == "no"
    assert store.locks.acquire("l", owner="me", ttl_seconds=60) == fence
    assert store.mail.receive("box", timeout_seconds=0) == [b"m"]
    newest = claim(store)[0]
    assert newest.lease.id == "ready" and newest.lease.fence > held.lease.fence
    assert kinds_of(store, "held") == ["enqueued", "started", "succeeded"]
    store.upkeep.close()


def test_two_stores_in_one_process_are_one_store(durable_store: Store, durable_url: str, namespace: str) -> None:
    other = connect(durable_url, Settings(namespace=namespace))
    durable_store.broker.push([a_push("a")])
    (delivery,) = claim(other)
    assert claim(durable_store) == []
    assert durable_store.broker.settle([done(delivery)], worker=WORKER) == []
    other.upkeep.close()
    assert state(durable_store, "a") == "succeeded"


def test_a_store_says_what_it_is(durable_store: Store) -> None:
    diagnosis = durable_store.upkeep.diagnose()
    assert diagnosis.backend in durable_store.url or diagnosis.backend == "postgres"
    assert diagnosis.server and diagnosis.latency_seconds >= 0
    assert durable_store.capabilities.is_durable and durable_store.capabilities.crosses_processes
