"""The past is kept as long as the settings say, and prune drops exactly what has outlived them."""

import pytest

from conftest import OpenStore
from stem.contracts.staging import Part, calls_of
from stem.contracts.store import Store
from stem.core.delivery import DeadCall, DeadFilter
from stem.core.envelope import Unique
from stem.core.outcome import Dead
from stem.core.record import TaskError, TaskFilter
from stem.core.settings.app import Retention
from support.builders import a_push, done, pushes
from support.stores.calls import (
    WORKER,
    all_events,
    claim,
    claim_one,
    dead_ids,
    fail_for_good,
    ids,
    let_time_pass,
    push_and_claim,
    record,
)
from support.until import until


def prune_all(store: Store) -> None:
    while store.upkeep.prune():
        pass


def test_results_are_kept_for_their_time_and_no_longer(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(results_seconds=0.4))
    store.broker.push(pushes("ended", "running", "waiting"))
    ended, _ = claim(store, limit=2)
    store.broker.push([a_push("delayed", delay=3600)])
    finished = store.upkeep.now()
    store.broker.settle([done(ended, 1)], worker=WORKER)
    kept = store.results.get(["ended"])
    assert kept["ended"].result() == 1 if kept else store.upkeep.now() >= finished + 0.4

    def is_gone() -> bool:
        prune_all(store)
        return not store.results.get(["ended"])

    until(is_gone)
    prune_all(store)  # it may have become too old to be read after the last time
    assert store.upkeep.now() >= finished + 0.4
    assert ids(store.results.page(TaskFilter(), limit=10).items) == ["delayed", "waiting", "running"]
    assert store.results.wait(["ended"], timeout_seconds=0) == {}
    assert store.broker.push(pushes("ended"))[0].created, "a forgotten id may be used again"


@pytest.mark.parametrize("how", ["alone", "in a batch", "with a unique key", "as a dead letter", "staged"])
def test_the_id_of_an_outlived_record_may_be_used_again_though_nobody_has_pruned(
    open_store: OpenStore, how: str
) -> None:
    store = open_store(retention=Retention(results_seconds=0.01))
    keeper = open_store()  # its endings sweep nothing: nothing is too old for it
    keeper.broker.settle([done(push_and_claim(keeper, a_push("old")), 1)], worker=WORKER)
    until(lambda: not store.results.get(["old"]))
    match how:
        case "alone":
            created = [store.broker.push([a_push("old")])[0].created]
        case "in a batch":
            created = [receipt.created for receipt in store.broker.push(pushes("old", "new"))]
        case "with a unique key":
            created = [store.broker.push([a_push("old", unique="k")])[0].created]
        case "as a dead letter":
            dead_call = DeadCall(a_push("old").envelope, Dead("gone", TaskError("Gone", "for good")), 1)
            created = [store.broker.insert_dead([dead_call], worker=WORKER)[0].created]
        case _:
            store.staging.stage("job", "part", calls_of(pushes("new", "old")))
            promoted = store.staging.promote("job", [Part("part", 2)])
            created = [True] * promoted.created + [False] * promoted.known
    assert all(created)
    assert record(keeper, "old").state == ("failed" if how == "as a dead letter" else "queued")
    assert record(keeper, "old").payload is None
    if how != "as a dead letter":
        assert "old" in ids(claim(keeper))


def test_a_dead_letter_keeps_its_record(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(results_seconds=0.1))
    fail_for_good(store, "letter", "dropped")
    assert store.deadletters.purge(DeadFilter(ids=("dropped",))) == 1

    def is_gone() -> bool:
        prune_all(store)
        return not store.results.get(["dropped"])

    until(is_gone)
    assert dead_ids(store) == ["letter"]
    assert record(store, "letter").state == "failed"
    assert store.deadletters.replay(DeadFilter()) == ["letter"]
    store = open_store()  # which keeps it long enough to look at it
    store.broker.settle([done(claim_one(store), "at last")], worker=WORKER)
    assert record(store, "letter").result() == "at last"


def test_the_log_is_bounded_by_count(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(events_count=20))
    store.broker.push([a_push(f"n{n}") for n in range(50)])
    (first,) = store.events.read(None, limit=1)
    prune_all(store)
    kept = [event.task_id for event in all_events(store)]
    assert kept == [f"n{n}" for n in range(30, 50)]
    assert [event.task_id for event in store.events.read(first.offset, limit=3)] == ["n30", "n31", "n32"]
    store.broker.push(pushes("new"))
    assert all_events(store)[-1].task_id == "new"


def test_the_log_may_be_cut_between_the_events_of_one_ending(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(events_count=3))
    store.broker.push(pushes("a", "b"))
    store.broker.settle([done(delivery, ran=0.1) for delivery in claim(store, limit=2)], worker=WORKER)
    prune_all(store)
    assert [f"{event.task_id} {event.kind}" for event in all_events(store)] == [
        "a succeeded", "b started", "b succeeded",
    ]  # fmt: skip


def test_the_log_of_an_ending_goes_when_its_time_has_come(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(events_seconds=0.3))
    pushed = store.upkeep.now()
    store.broker.settle([done(push_and_claim(store), ran=0.1)], worker=WORKER)

    def kinds() -> list[str]:
        prune_all(store)
        return [event.kind for event in all_events(store)]

    until(lambda: kinds() == [])
    assert store.upkeep.now() >= pushed + 0.3


def test_the_log_is_bounded_by_age(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(events_seconds=0.3))
    sent = store.upkeep.now()
    store.broker.push(pushes("a", "b"))
    head = store.events.head()

    def is_empty() -> bool:
        prune_all(store)
        return all_events(store) == []

    until(is_empty)
    assert store.upkeep.now() >= sent + 0.3
    store.broker.push(pushes("c"))
    assert [event.task_id for event in store.events.read(head, limit=10)] == ["c"]
    assert [event.task_id for event in store.events.read(None, limit=10)] == ["c"]


def test_prune_counts_what_went_and_ends_at_zero(store: Store) -> None:
    store.broker.settle([done(push_and_claim(store))], worker=WORKER)
    assert store.upkeep.prune() == 0
    store.locks.acquire("l", owner="me", ttl_seconds=0.01)
    store.mail.send("box", b"x", ttl_seconds=0.01)
    store.mail.publish("news", b"x", ttl_seconds=0.01)
    store.broker.push([a_push(unique=Unique("k", 0.01))])
    let_time_pass(store, 0.05)
    prune_all(store)
    assert store.upkeep.prune() == 0
    assert store.locks.owner("l") is None
    assert store.mail.receive("box", timeout_seconds=0) == []


def test_pruning_leaves_what_is_alive(store: Store) -> None:
    store.broker.push([a_push("a", unique="k"), a_push("b", delay=3600)])
    store.locks.acquire("l", owner="me", ttl_seconds=60)
    store.mail.send("box", b"x", ttl_seconds=60)
    prune_all(store)
    assert store.broker.push([a_push("c", unique="k")])[0].id == "a"
    assert store.locks.owner("l") == "me"
    assert store.mail.receive("box", timeout_seconds=0) == [b"x"]
    assert ids(claim(store)) == ["a"]
