"""Unique keys: a duplicate answers with the first one's id."""

from collections.abc import Callable
from functools import partial

import pytest

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, Delivery, Ending
from stem.core.envelope import Push, Unique
from stem.core.settings.app import Retention
from support.background import together
from support.builders import a_push, cancelled, dead, done, requeue, retry
from support.stores.calls import WORKER, claim, claim_one, expire, ids, in_time, push_and_claim
from support.until import until


def test_the_duplicate_returns_the_holders_id(store: Store) -> None:
    receipts = store.broker.push([a_push("a", unique="k"), a_push("b", unique="k"), a_push("c", unique="other")])
    assert [(receipt.id, receipt.created) for receipt in receipts] == [("a", True), ("a", False), ("c", True)]
    (later,) = store.broker.push([a_push("d", unique="k", queue="elsewhere")])
    assert (later.id, later.created) == ("a", False)
    assert store.results.get(["b", "d"]) == {}
    assert ids(claim(store, "default", "elsewhere")) == ["a", "c"]


@pytest.mark.parametrize("ending", [done, dead, cancelled])
def test_until_done_is_held_through_every_wait_and_released_by_the_end(
    store: Store, ending: Callable[[Delivery], Ending]
) -> None:
    delivery = push_and_claim(store, a_push("a", unique="k"))
    for again in (retry, requeue):
        store.broker.settle([again(delivery)], worker=WORKER)
        assert store.broker.push([a_push("b", unique="k")])[0].id == "a"
        delivery = claim_one(store)
        assert store.broker.push([a_push("b", unique="k")])[0].id == "a"
    store.broker.settle([ending(delivery)], worker=WORKER)
    assert store.broker.push([a_push("b", unique="k")])[0].created


def test_until_done_is_released_by_purge_expiry_and_crash_loop(store: Store) -> None:
    store.broker.push([a_push("a", unique="k")])
    assert store.broker.purge("default") == 1
    assert store.broker.push([a_push("b", unique="k", expires=0)])[0].created
    assert claim(store) == []
    delivery = push_and_claim(store, a_push("c", unique="k"), lease=0.05)
    store.broker.start([delivery.lease], worker=WORKER)
    until(lambda: store.broker.reclaim(max_deaths=1).dead == ["c"])
    assert store.broker.push([a_push("d", unique="k")])[0].created


def test_a_reclaimed_task_still_holds_its_key(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a", unique="k"), lease=0.05)
    expire(store, delivery)
    assert store.broker.push([a_push("b", unique="k")])[0].id == "a"


def test_a_key_for_seconds_is_held_that_long_whatever_its_holder_does(store: Store) -> None:
    def refused(number: int) -> tuple[Push, str]:
        delivery = push_and_claim(store, a_push(f"a{number}", unique=(key := Unique(f"k{number}", 0.6))))
        store.broker.settle([done(delivery)], worker=WORKER)
        second = a_push("b", unique=key)
        return second, store.broker.push([second])[0].id

    second, holder = in_time(store, 0.6, refused)
    assert holder.startswith("a")
    until(lambda: store.broker.push([second])[0].created)


@pytest.mark.parametrize("how", ["cancel", "purge", "settle"])
def test_a_key_for_seconds_is_free_if_its_holder_was_cancelled(store: Store, how: str) -> None:
    """Its work was not done, so the next equal call must not be answered with it."""
    key = Unique("k", 3600.0)
    store.broker.push([a_push("a", unique=key)])
    match how:
        case "cancel":
            store.broker.cancel(["a"])
        case "purge":
            store.broker.purge("default")
        case _:
            store.broker.settle([cancelled(claim_one(store))], worker=WORKER)
    (receipt,) = store.broker.push([a_push("b", unique=key)])
    assert (receipt.id, receipt.created) == ("b", True)
    assert store.broker.push([a_push("c", unique=key)])[0].id == "b"


@pytest.mark.parametrize("how", ["cancel", "purge", "settle", "expire"])
def test_a_key_for_seconds_stays_free_when_the_cancelled_holders_record_is_gone(
    open_store: OpenStore, how: str
) -> None:
    store = open_store(retention=Retention(results_seconds=0.01))
    key = Unique("k", 3600.0)
    store.broker.push([a_push("a", unique=key, expires=0.0 if how == "expire" else None)])
    match how:
        case "cancel":
            store.broker.cancel(["a"])
        case "purge":
            store.broker.purge("default")
        case "expire":
            assert claim(store) == []
        case _:
            store.broker.settle([cancelled(claim_one(store))], worker=WORKER)

    def is_gone() -> bool:
        store.upkeep.prune()
        return not store.results.get(["a"])

    until(is_gone)
    while store.upkeep.prune():
        pass
    assert store.broker.push([a_push("b", unique=key)])[0].id == "b"


def test_a_known_id_is_left_alone_before_its_key_is_looked_at(store: Store) -> None:
    store.broker.push([a_push("a", unique="k"), a_push("b")])
    (receipt,) = store.broker.push([a_push("b", unique="k")])
    assert (receipt.id, receipt.created) == ("b", False)
    store.broker.push([a_push("b", unique="free")])
    assert store.broker.push([a_push("c", unique="free")])[0].created


def test_a_replayed_task_does_not_take_its_key_back(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a", unique="k"))
    store.broker.settle([dead(delivery)], worker=WORKER)
    assert store.deadletters.replay(DeadFilter()) == ["a"]
    assert store.broker.push([a_push("b", unique="k")])[0].created
    for each in claim(store):
        store.broker.settle([done(each)], worker=WORKER)
    assert store.broker.push([a_push("c", unique="k")])[0].created


def test_the_end_of_a_former_holder_does_not_release_the_next_ones_key(store: Store) -> None:
    first = push_and_claim(store, a_push("a", unique=Unique("k", 0.05)))
    until(lambda: store.broker.push([a_push("b", unique="k")])[0].created)
    store.broker.settle([done(first)], worker=WORKER)
    assert store.broker.push([a_push("c", unique="k")])[0].id == "b"


def test_many_pushers_of_one_key_create_one_task(store: Store, open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(4)]
    answers = together([partial(each.broker.push, [a_push(f"t{n}", unique="k")]) for n, each in enumerate(stores)])
    assert len({receipt.id for (receipt,) in answers}) == 1
    assert sum(receipt.created for (receipt,) in answers) == 1
    assert len(claim(store)) == 1
