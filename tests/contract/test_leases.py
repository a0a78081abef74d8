"""Leases: good until the task is taken back, then fenced for good."""

import time
from itertools import count

import pytest

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.delivery import Delivery, Lease, Report
from stem.core.lifecycle import EventKind, State
from support.builders import a_push, cancelled, dead, done, pushes, requeue, retry
from support.stores.calls import (
    WORKER,
    all_events,
    claim,
    claim_one,
    dead_ids,
    depth,
    expire,
    ids,
    kinds_of,
    push_and_claim,
    record,
    state,
)
from support.stores.snapshot import without_moments
from support.until import until


def every_verb_is_refused(store: Store, held: Delivery) -> None:
    """Whatever the holder of this lease tries, it gets the lease back and nothing changes."""
    lease = held.lease
    before = (all_events(store), record(store, lease.id), depth(store), dead_ids(store))
    assert store.broker.renew([lease], lease_seconds=60) == [lease]
    assert store.broker.start([lease], worker="late") == [lease]
    assert store.broker.report([Report(lease, {"done": 1})], worker="late") == [lease]
    assert store.broker.report([Report(lease)], worker="late") == [lease]
    for ending in (done, retry, dead, requeue, cancelled):
        late = ending(lease, meta={"late": True}, then=[a_push(f"follow-up-{ending.__name__}")])
        assert store.broker.settle([late], worker="late") == [lease]
    assert (all_events(store), record(store, lease.id), depth(store), dead_ids(store)) == before


def test_an_expired_lease_returns_and_the_old_holder_is_refused(store: Store, open_store: OpenStore) -> None:
    old = push_and_claim(store, a_push("a"), lease=0.1)
    store.broker.start([old.lease], worker="old")
    expire(store, old)
    every_verb_is_refused(store, old)
    new = claim_one(open_store())
    assert (new.lease.id, new.attempt, new.deaths) == ("a", 0, 0)  # the old one lives: it has spoken
    assert new.lease.fence > old.lease.fence
    every_verb_is_refused(store, old)
    assert store.broker.settle([done(new, "new")], worker="new") == []
    every_verb_is_refused(store, old)
    every_verb_is_refused(store, new)
    assert record(store, "a").result() == "new"
    assert kinds_of(store, "a").count(EventKind.SUCCEEDED) == 1


@pytest.mark.parametrize("ending", [done, retry, dead, requeue, cancelled])
def test_a_lease_that_was_settled_is_good_no_longer(store: Store, ending: type) -> None:
    delivery = push_and_claim(store, a_push("a"))
    assert store.broker.settle([ending(delivery)], worker=WORKER) == []
    every_verb_is_refused(store, delivery)


def test_a_lease_that_never_was_is_refused(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    store.broker.push(pushes("waiting"))
    forged = [
        Lease("a", delivery.lease.fence + 1),
        Lease("waiting", delivery.lease.fence),
        Lease("waiting", 0),
        Lease("nobody", 1),
    ]
    assert store.broker.settle([done(lease) for lease in forged], worker="x") == forged
    assert store.broker.start(forged, worker="x") == forged
    assert store.broker.renew(forged, lease_seconds=60) == forged
    assert state(store, "a") is State.QUEUED
    assert store.broker.settle([done(delivery)], worker=WORKER) == []


def test_refused_and_good_leases_mix_in_one_batch(store: Store) -> None:
    store.broker.push(pushes("a", "b", "c", "d"))
    a, b, c, d = claim(store)
    store.broker.settle([done(b, "first"), requeue(d, 3600)], worker=WORKER)
    assert store.broker.start([a.lease, b.lease, c.lease, d.lease], worker=WORKER) == [b.lease, d.lease]
    assert store.broker.renew([d.lease, c.lease, b.lease], lease_seconds=60) == [d.lease, b.lease]
    assert store.broker.report([Report(b.lease, {"n": 1}), Report(a.lease, {"n": 2})], worker=WORKER) == [b.lease]
    refused = store.broker.settle([done(b, "second"), done(a, "A"), retry(d), dead(c)], worker=WORKER)
    assert refused == [b.lease, d.lease]
    assert (record(store, "a").result(), record(store, "b").result()) == ("A", "first")
    assert (state(store, "c"), state(store, "d")) == (State.FAILED, State.QUEUED)


def test_one_lease_twice_in_one_batch_ends_once(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    assert store.broker.settle([done(delivery, 1), done(delivery, 2)], worker=WORKER) == [delivery.lease]
    assert record(store, "a").result() == 1
    assert kinds_of(store, "a").count(EventKind.SUCCEEDED) == 1


def test_one_lease_twice_in_one_batch_starts_once(store: Store) -> None:
    store.broker.push(pushes("a", "b"))
    a, b = claim(store)
    assert store.broker.start([a.lease, a.lease], worker=WORKER) == []
    assert kinds_of(store, "a") == [EventKind.ENQUEUED, EventKind.STARTED]
    reports = [Report(b.lease, {"n": 1}), Report(b.lease), Report(b.lease, {"n": 2})]
    assert store.broker.report(reports, worker=WORKER) == []
    assert [str(kind) for kind in kinds_of(store, "b")] == ["enqueued", "started", "progress", "heartbeat", "progress"]
    assert without_moments(record(store, "b").meta) == {"progress": {"n": 2}}
    store.broker.settle([done(a)], worker=WORKER)
    assert store.broker.start([a.lease, a.lease], worker=WORKER) == [a.lease, a.lease]
    assert store.broker.renew([a.lease, a.lease], lease_seconds=1) == [a.lease, a.lease]


def test_the_old_and_the_new_lease_of_a_task_may_meet_in_one_batch(store: Store) -> None:
    old = push_and_claim(store, a_push("a"), lease=0.02)
    expire(store, old)
    new = claim_one(store)
    both = [old.lease, new.lease]
    assert store.broker.start(both, worker=WORKER) == [old.lease]
    assert store.broker.report([Report(lease, {"fence": lease.fence}) for lease in both], worker=WORKER) == [old.lease]
    assert store.broker.renew(both, lease_seconds=60) == [old.lease]
    assert store.broker.settle([done(old, "old"), done(new, "new")], worker=WORKER) == [old.lease]
    assert record(store, "a").result() == "new"
    kinds = [str(kind) for kind in kinds_of(store, "a")]
    assert kinds == ["enqueued", "requeued", "started", "progress", "succeeded"]


def test_a_lease_past_its_end_is_good_until_it_is_reclaimed(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"), lease=0.0)
    until(lambda: store.upkeep.now() > record(store, "a").enqueued_at.timestamp() + 0.05)
    assert claim(store) == []
    assert depth(store).running == 1
    assert store.broker.renew([delivery.lease], lease_seconds=60) == []
    assert store.broker.reclaim().returned == []
    assert store.broker.settle([done(delivery)], worker=WORKER) == []


def test_a_lease_renewed_for_five_times_its_length_is_never_delivered_twice(
    store: Store, open_store: OpenStore
) -> None:
    other = open_store()

    def holder_after_a_second() -> Delivery | None:
        """None: it was halted for longer than its lease."""
        delivery = push_and_claim(store, a_push(queue=f"q{next(numbers)}"), lease=0.2)
        store.broker.start([delivery.lease], worker=WORKER)
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            renewed = store.upkeep.now()
            if store.broker.renew([delivery.lease], lease_seconds=0.2) or other.broker.reclaim().returned:
                assert store.upkeep.now() > renewed + 0.2, "taken from one who had renewed it"
                return None
            assert claim(other, delivery.queue) == []
        return delivery

    numbers = count(1)
    delivery = until(holder_after_a_second, seconds=30)
    assert store.broker.settle([done(delivery)], worker=WORKER) == []
    assert kinds_of(store, delivery.lease.id) == [EventKind.ENQUEUED, EventKind.STARTED, EventKind.SUCCEEDED]


def test_a_renewal_never_shortens_a_lease(store: Store) -> None:
    delivery = push_and_claim(store, lease=60)
    assert store.broker.renew([delivery.lease], lease_seconds=0.0) == []
    until(lambda: store.upkeep.now() > record(store, delivery.lease.id).enqueued_at.timestamp() + 0.05)
    assert store.broker.reclaim().returned == []


def test_the_envelopes_visibility_timeout_is_the_length_of_its_lease(store: Store) -> None:
    store.broker.push([a_push("short", visibility_timeout=0.1), a_push("long", visibility_timeout=60.0)])
    short, long = claim(store, lease=0.3)
    assert (short.envelope.visibility_timeout, long.envelope.visibility_timeout) == (0.1, 60.0)
    before = store.upkeep.now()
    until(lambda: store.broker.reclaim().returned == ["short"])
    until(lambda: store.upkeep.now() > before + 0.4)
    assert store.broker.reclaim().returned == []
    assert store.broker.settle([done(long)], worker=WORKER) == []


def test_a_renewal_lasts_the_visibility_timeout_if_that_is_longer(store: Store) -> None:
    store.broker.push([a_push("a", visibility_timeout=0.4)])
    delivery = claim_one(store)
    now = store.upkeep.now()
    assert store.broker.renew([delivery.lease], lease_seconds=0.01) == []
    until(lambda: store.broker.reclaim().returned == ["a"])
    assert store.upkeep.now() >= now + 0.4


def test_empty_batches_are_nothing(store: Store) -> None:
    assert store.broker.start([], worker=WORKER) == []
    assert store.broker.report([], worker=WORKER) == []
    assert store.broker.renew([], lease_seconds=1) == []
    assert store.broker.settle([], worker=WORKER) == []
    assert all_events(store) == []


def test_a_requeued_task_comes_back_to_the_same_or_another_consumer(store: Store, open_store: OpenStore) -> None:
    store.broker.push(pushes("a", "b"))
    a, b = claim(store)
    store.broker.start([a.lease, b.lease], worker=WORKER)
    store.broker.settle([requeue(a, reason="shutdown"), requeue(b, reason="shutdown")], worker=WORKER)
    same = claim_one(store)
    another = claim_one(open_store())
    assert ids([same, another]) == ["a", "b"]
    assert (same.attempt, another.attempt) == (0, 0)
    assert kinds_of(store, "a") == [EventKind.ENQUEUED, EventKind.STARTED, EventKind.REQUEUED]
