"""Work whose holder fell silent returns; what kills its holders again and again is given up."""

from stem.contracts.store import Store
from stem.core.lifecycle import EventKind, State
from support.asking import (
    WORKER,
    claim,
    claim_one,
    depth,
    events_of,
    expire,
    ids,
    kinds_of,
    let_time_pass,
    push_and_claim,
    record,
)
from support.builders import a_push, done, pushes, requeue, retry
from support.until import until


def test_a_live_lease_is_left_alone(store: Store) -> None:
    push_and_claim(store, lease=60)
    reclaimed = store.broker.reclaim()
    assert (reclaimed.returned, reclaimed.dead) == ([], [])


def test_a_lost_claim_that_never_started_is_no_death(store: Store) -> None:
    store.broker.push(pushes("a", "b"))
    for _ in range(5):
        expire(store, claim_one(store, lease=0.02))
    delivery = claim_one(store)
    assert (delivery.lease.id, delivery.deaths, delivery.attempt) == ("a", 0, 0)
    assert kinds_of(store, "a") == [EventKind.ENQUEUED] + [EventKind.REQUEUED] * 5


def test_a_lost_worker_is_named_in_the_event(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"), lease=0.05)
    store.broker.start([delivery.lease], worker="lost-1")
    started_at = record(store, "a").started_at
    expire(store, delivery)
    event = events_of(store, "a")[-1]
    assert (event.kind, event.data) == (EventKind.REQUEUED, {"reason": "lease-expired"})
    assert (event.worker, event.started_at, event.attempt) == ("lost-1", started_at, 0)
    waiting = record(store, "a")
    assert (waiting.state, waiting.worker, waiting.started_at) == (State.QUEUED, None, None)


def test_the_third_death_is_a_crash_loop(store: Store) -> None:
    store.broker.push([a_push("a", max_retries=99)])
    for deaths in range(3):
        delivery = claim_one(store, lease=0.05)
        assert (delivery.deaths, delivery.attempt) == (deaths, 0)
        store.broker.start([delivery.lease], worker="lost-1")
        reclaimed = until(
            lambda: next((found for found in [store.broker.reclaim()] if found.returned + found.dead), None)
        )
        assert (reclaimed.returned, reclaimed.dead) == ((["a"], []) if deaths < 2 else ([], ["a"]))
    ended = record(store, "a")
    assert ended.state is State.FAILED
    assert ended.error is not None and (ended.error.type, ended.error.retryable) == ("WorkerLost", True)
    letter = store.deadletters.get("a")
    assert letter is not None
    assert (letter.reason, letter.meta) == ("crash-loop", {"deaths": 3})
    assert kinds_of(store, "a")[-2:] == [EventKind.FAILED, EventKind.DEAD_LETTERED]
    assert claim(store) == []


def test_deaths_of_isolates_and_of_workers_add_up(store: Store) -> None:
    store.broker.push(pushes("a"))
    store.broker.settle([requeue(claim_one(store), died=True, ran=0.0)], worker=WORKER)
    delivery = claim_one(store, lease=0.05)
    store.broker.start([delivery.lease], worker=WORKER)
    until(lambda: store.broker.reclaim(max_deaths=2).dead == ["a"])


def test_a_reclaimed_retry_keeps_its_attempt_and_place(store: Store) -> None:
    store.broker.push(pushes("a", "b"))
    first = claim_one(store)
    store.broker.settle([retry(first)], worker=WORKER)
    second = claim_one(store, lease=0.05)
    store.broker.start([second.lease], worker=WORKER)
    expire(store, second)
    waiting = record(store, "a")
    assert (waiting.state, waiting.attempt) == (State.RETRIED, 1)
    assert [(each.lease.id, each.attempt) for each in claim(store)] == [("a", 1), ("b", 0)]


def test_the_oldest_go_first_and_the_limit_holds(store: Store) -> None:
    store.broker.push(pushes("a", "b", "c"))
    for _ in range(3):
        claim_one(store, lease=0.0)
        let_time_pass(store, 0.003)
    assert store.broker.reclaim(limit=2).returned == ["a", "b"]
    assert depth(store).running == 1
    assert store.broker.reclaim(limit=2).returned == ["c"]
    assert ids(claim(store)) == ["a", "b", "c"]


def test_a_settled_task_is_never_reclaimed(store: Store) -> None:
    delivery = push_and_claim(store, lease=0.0)
    store.broker.settle([done(delivery)], worker=WORKER)
    let_time_pass(store, 0.01)
    assert store.broker.reclaim().returned == []
