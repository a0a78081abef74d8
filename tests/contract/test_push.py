"""What a push promises: stored when it returns, once, whole."""

from functools import partial

import msgspec
import pytest

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.envelope import Push
from stem.core.errors import StemError
from stem.core.lifecycle import EventKind, State
from support.background import together
from support.builders import a_push, an_envelope, done, pushes
from support.stores.calls import (
    WORKER,
    all_events,
    claim,
    claim_one,
    depth,
    ids,
    kinds_of,
    push_and_claim,
    record,
    state,
)


def test_a_task_is_published_claimed_and_settled(store: Store) -> None:
    sent = an_envelope(args={"a": 2, "b": 3}, headers={"traceparent": "00-1"}, meta={"tenant": "x"})
    (receipt,) = store.broker.push([Push(sent)])
    assert (receipt.id, receipt.created) == (sent.id, True)
    delivery = claim_one(store)
    assert delivery.envelope == sent
    assert (delivery.name, delivery.queue, delivery.attempt, delivery.deaths) == ("demo.add", "default", 0, 0)
    assert store.broker.settle([done(delivery, 5)], worker=WORKER) == []
    ended = record(store, sent.id)
    assert (ended.state, ended.result(), ended.error, ended.attempt) == (State.SUCCEEDED, 5, None, 0)
    assert (ended.meta, ended.worker, ended.priority) == ({"tenant": "x"}, WORKER, 5)
    assert claim(store) == []


def test_a_push_that_returned_reads_queued(store: Store) -> None:
    store.broker.push([a_push("a", name="demo.mul", queue="maths", priority=7, meta={"k": [1]})])
    waiting = record(store, "a")
    assert (waiting.state, waiting.attempt, waiting.name, waiting.queue) == (State.QUEUED, 0, "demo.mul", "maths")
    assert (waiting.priority, waiting.meta) == (7, {"k": [1]})
    assert (waiting.payload, waiting.error, waiting.worker, waiting.started_at, waiting.finished_at) == (None,) * 5
    assert abs(waiting.enqueued_at.timestamp() - store.upkeep.now()) < 5
    assert kinds_of(store, "a") == [EventKind.ENQUEUED]


def test_a_task_goes_to_its_own_queue_and_no_other(store: Store) -> None:
    store.broker.push([a_push("a", queue="mail"), a_push("b", queue="default")])
    assert ids(claim(store, "default")) == ["b"]
    assert ids(claim(store, "default", "mail")) == ["a"]


def test_an_empty_push_is_nothing(store: Store) -> None:
    assert store.broker.push([]) == []
    assert all_events(store) == []


def test_pushing_an_id_twice_is_a_no_op(store: Store) -> None:
    store.broker.push([a_push("a", args={"first": True})])
    (again,) = store.broker.push([a_push("a", args={"first": False}, queue="other", priority=9)])
    assert (again.id, again.created) == ("a", False)
    assert claim(store, "other") == []
    assert claim_one(store).envelope.arguments() == {"first": True}
    assert kinds_of(store, "a") == [EventKind.ENQUEUED]


def test_an_id_twice_in_one_batch_is_stored_once(store: Store) -> None:
    receipts = store.broker.push(pushes("a", "b", "a"))
    assert [(receipt.id, receipt.created) for receipt in receipts] == [("a", True), ("b", True), ("a", False)]
    assert ids(claim(store)) == ["a", "b"]


def test_pushing_the_id_of_a_running_or_ended_task_changes_nothing(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    assert not store.broker.push([a_push("a")])[0].created
    store.broker.settle([done(delivery, "kept")], worker=WORKER)
    assert not store.broker.push([a_push("a")])[0].created
    assert record(store, "a").result() == "kept"
    assert claim(store) == []
    assert depth(store) == depth(store, "never-used")


def test_a_push_that_cannot_be_written_whole_writes_nothing(store: Store) -> None:
    unwritable = a_push("b", meta={"not": {"json": object()}})
    with pytest.raises((TypeError, msgspec.MsgspecError)):
        store.broker.push([a_push("a"), unwritable, a_push("c")])
    assert store.results.get(["a", "b", "c"]) == {}
    assert claim(store) == []
    assert all_events(store) == []


def test_many_pushers_of_one_id_create_it_once(store: Store, open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(4)]
    answers = together([partial(each.broker.push, pushes("x", "y", "z")) for each in stores])
    created = [receipt.id for receipts in answers for receipt in receipts if receipt.created]
    assert sorted(created) == ["x", "y", "z"]
    assert sorted(ids(claim(store))) == ["x", "y", "z"]


def test_a_joined_transaction_is_refused_where_the_store_has_none(store: Store) -> None:
    if store.capabilities.joins_transactions:
        return
    with pytest.raises(StemError):
        store.broker.push([a_push("a")], connection=object())
    assert store.results.get(["a"]) == {}


def test_five_thousand_at_once_are_pushed_claimed_and_settled(store: Store) -> None:
    batch = [a_push(f"n{n}") for n in range(5000)]
    assert all(receipt.created for receipt in store.broker.push(batch))
    assert depth(store).ready == 5000
    deliveries = claim(store, limit=5000)
    assert ids(deliveries) == [f"n{n}" for n in range(5000)]
    assert store.broker.start([each.lease for each in deliveries], worker=WORKER) == []
    assert store.broker.renew([each.lease for each in deliveries], lease_seconds=60) == []
    assert store.broker.settle([done(each, n) for n, each in enumerate(deliveries)], worker=WORKER) == []
    assert len(store.results.get([f"n{n}" for n in range(5000)])) == 5000
    assert record(store, "n4999").result() == 4999
    assert state(store, "n0") is State.SUCCEEDED
    assert len(all_events(store)) == 15000
