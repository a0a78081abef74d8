"""Work whose holder fell silent returns; what kills its holders again and again is given up."""

import pytest

from stem.contracts.store import Store
from stem.core.delivery import Delivery, Ending, Lease, Report
from stem.core.lifecycle import EventKind, State
from stem.core.outcome import Dead, Requeue, Settlement
from stem.core.record import TaskError
from support.builders import a_push, done, pushes, requeue, retry
from support.stores.calls import (
    WORKER,
    claim,
    claim_one,
    depth,
    events_of,
    expire,
    ids,
    in_time,
    kinds_of,
    let_time_pass,
    push_and_claim,
    record,
)
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


@pytest.mark.parametrize(
    "told", [Requeue(0.0, "killed", died=True), Dead("crash-loop", TaskError("WorkerLost", "It was killed."))]
)
def test_a_death_that_is_told_too_late_still_counts(store: Store, told: Settlement) -> None:
    store.broker.push([a_push("a")])
    for deaths in range(2):
        delivery = claim_one(store, lease=0.05)
        assert delivery.deaths == deaths
        store.broker.start([delivery.lease], worker="slow")
        expire(store, delivery)
        assert store.broker.settle([Ending(delivery.lease, told, 0.1)], worker="slow") == [delivery.lease]
    assert claim_one(store).deaths == 2


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
    assert (letter.reason, letter.meta) == ("crash-loop", {"deaths": 3, "runs": 3})
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


GRACE = 1.0


def test_after_a_gap_in_the_calls_nothing_is_taken_back_before_workers_could_renew(store: Store) -> None:
    lost, kept = [start_one(store, id, lease=0.05) for id in ("lost", "kept")]
    let_time_pass(store, 0.1)  # nobody has called: the store was away
    assert store.broker.reclaim(grace_seconds=GRACE).returned == []
    assert store.broker.renew([kept.lease], lease_seconds=60) == []
    until(lambda: store.broker.reclaim(grace_seconds=GRACE).returned == ["lost"], every=GRACE / 20)
    assert depth(store).running == 1
    assert store.broker.settle([done(kept)], worker=WORKER) == []
    assert store.broker.settle([done(lost)], worker=WORKER) == [lost.lease]


def test_while_calls_come_without_a_gap_a_lost_lease_is_taken_back_at_once(store: Store) -> None:
    push_and_claim(store, a_push("kept"), lease=60)
    start_one(store, "first", lease=0.0)
    until(lambda: store.broker.reclaim(grace_seconds=GRACE).returned == ["first"])

    def lose_another(number: int) -> list[str]:
        store.broker.reclaim(grace_seconds=GRACE)
        start_one(store, f"t{number}", lease=0.0)
        let_time_pass(store, 0.002)
        return store.broker.reclaim(grace_seconds=GRACE).returned

    assert in_time(store, GRACE, lose_another)


@pytest.mark.parametrize("verb", ["start", "report", "renew", "settle"])
def test_a_lost_lease_is_no_death_if_its_holder_turns_up(store: Store, verb: str) -> None:
    store.broker.push([a_push("a")])
    for _ in range(5):
        delivery = claim_one(store, lease=0.05)
        assert delivery.deaths == 0
        store.broker.start([delivery.lease], worker="away")
        expire(store, delivery)
        for _ in range(2):  # only once, however often it speaks
            assert turn_up(store, delivery, verb) == [delivery.lease]
    assert record(store, "a").state is State.QUEUED


def test_a_holder_that_turns_up_takes_back_its_own_death_only(store: Store) -> None:
    store.broker.push([a_push("a")])
    for _ in range(2):
        delivery = claim_one(store, lease=0.05)
        store.broker.start([delivery.lease], worker=WORKER)
        expire(store, delivery)
    assert store.broker.renew([delivery.lease], lease_seconds=1) == [delivery.lease]
    assert claim_one(store).deaths == 1


def turn_up(store: Store, delivery: Delivery, verb: str) -> list[Lease]:
    match verb:
        case "start":
            return store.broker.start([delivery.lease], worker="away")
        case "report":
            return store.broker.report([Report(delivery.lease)], worker="away")
        case "renew":
            return store.broker.renew([delivery.lease], lease_seconds=60)
        case _:
            return store.broker.settle([done(delivery)], worker="away")


def start_one(store: Store, id: str, *, lease: float) -> Delivery:
    delivery = push_and_claim(store, a_push(id), lease=lease)
    store.broker.start([delivery.lease], worker=WORKER)
    return delivery
