"""What a claim promises: the right ones, in order, to one holder, no more than asked for."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, Delivery
from stem.core.lifecycle import EventKind, State
from stem.core.record import moment
from support.background import takes_less_than, together
from support.builders import a_push, dead, done, pushes, requeue, retry
from support.stores.calls import (
    WORKER,
    claim,
    claim_one,
    depth,
    expire,
    ids,
    kinds_of,
    let_time_pass,
    push_and_claim,
    record,
    state,
)
from support.until import until


def test_priority_nine_goes_before_one_and_equals_go_in_order(store: Store) -> None:
    store.broker.push([a_push(f"p{p}{x}", priority=p) for x in "ab" for p in (1, 9, 5, 0)])
    assert ids(claim(store)) == ["p9a", "p9b", "p5a", "p5b", "p1a", "p1b", "p0a", "p0b"]


def test_order_holds_over_several_queues(store: Store) -> None:
    store.broker.push(
        [
            a_push("a", queue="x", priority=3),
            a_push("b", queue="y", priority=3),
            a_push("c", queue="z", priority=9),
            a_push("d", queue="x", priority=3),
            a_push("e", queue="y", priority=4),
        ]
    )
    assert ids(claim(store, "y", "x", limit=2)) == ["e", "a"]
    assert ids(claim(store, "x", "y", "z", "unknown")) == ["c", "b", "d"]


def test_a_delivery_says_by_which_priority_it_was_chosen(store: Store) -> None:
    store.broker.push([a_push(f"{queue}{p}", queue=queue, priority=p) for queue in "xy" for p in (0, 4, 9)])
    store.broker.push([a_push("late", queue="x", priority=2, delay=0.01)])
    let_time_pass(store, 0.02)
    assert {each.lease.id: each.priority for each in claim(store, "x")} == {"x0": 0, "x4": 4, "x9": 9, "late": 2}
    assert {each.lease.id: each.priority for each in claim(store, "x", "y")} == {"y0": 0, "y4": 4, "y9": 9}


def test_a_priority_stays_through_a_retry_a_lost_lease_and_a_replay(store: Store) -> None:
    first = push_and_claim(store, a_push("a", priority=7))
    store.broker.settle([retry(first, 0.0)], worker=WORKER)
    second = claim_one(store, lease=0.01)
    expire(store, second)
    third = claim_one(store)
    store.broker.settle([dead(third)], worker=WORKER)
    assert store.deadletters.replay(DeadFilter()) == ["a"]
    assert [each.priority for each in (first, second, third, claim_one(store))] == [7, 7, 7, 7]


def test_a_queue_named_twice_delivers_once(store: Store) -> None:
    store.broker.push(pushes("a"))
    assert ids(claim(store, "default", "default")) == ["a"]


def test_the_limit_truly_caps(store: Store) -> None:
    store.broker.push([a_push(f"a{n}", queue=f"q{n % 3}") for n in range(30)])
    assert claim(store, "q0", "q1", "q2", limit=0) == []
    assert claim(store, limit=10) == []
    assert ids(claim(store, "q0", "q1", "q2", limit=7)) == [f"a{n}" for n in range(7)]
    assert sum(count.running for count in store.broker.depth().values()) == 7
    assert len(claim(store, "q0", "q1", "q2", limit=100)) == 23


def test_no_queue_no_delivery(store: Store) -> None:
    store.broker.push(pushes("a"))
    assert store.broker.claim([], limit=5, lease_seconds=5) == []


def test_claimed_is_not_started(store: Store) -> None:
    store.broker.push(pushes("a"))
    claim_one(store)
    held = record(store, "a")
    assert (held.state, held.worker, held.started_at) == (State.QUEUED, None, None)
    assert kinds_of(store, "a") == [EventKind.ENQUEUED]


def test_fences_grow_with_every_claim(store: Store) -> None:
    store.broker.push(pushes("a", "b"))
    first = claim_one(store)
    second = claim_one(store)
    store.broker.settle([requeue(first)], worker=WORKER)
    third = claim_one(store)
    assert first.lease.fence < second.lease.fence < third.lease.fence


def test_a_delayed_task_is_invisible_until_due_and_at_most_a_second_late(store: Store) -> None:
    def seconds_late() -> float:
        before = store.upkeep.now()
        store.broker.push([a_push(delay=0.3)])
        after = store.upkeep.now()
        until(lambda: claim(store))
        now = store.upkeep.now()
        assert now >= before + 0.3
        return now - after - 0.3

    takes_less_than(1.0, seconds_late)
    store.broker.push([a_push(delay=3600)])
    assert claim(store) == []
    assert (depth(store).ready, depth(store).delayed) == (0, 1)


def test_not_before_is_kept_and_the_past_is_now(store: Store) -> None:
    now = moment(store.upkeep.now())
    soon, later = now + timedelta(seconds=0.4), now + timedelta(hours=1)
    store.broker.push(
        [a_push("soon", not_before=soon), a_push("later", not_before=later), a_push("past", not_before=now)]
    )
    at_once = ids(claim(store))
    assert "past" in at_once
    if at_once == ["past"]:
        until(lambda: ids(claim(store)) == ["soon"])
    assert moment(store.upkeep.now()) >= soon
    assert claim(store) == []


def test_a_delay_counts_rather_than_not_before(store: Store) -> None:
    later = moment(store.upkeep.now()) + timedelta(hours=1)
    store.broker.push([a_push("a", not_before=later, delay=0)])
    assert ids(claim(store)) == ["a"]


def test_a_due_task_takes_the_place_of_its_age_and_priority(store: Store) -> None:
    store.broker.push([a_push("old", delay=0.1), a_push("new"), a_push("first", priority=9, delay=0.1)])
    until(lambda: depth(store).ready == 3)
    assert ids(claim(store)) == ["first", "old", "new"]


def test_expired_tasks_are_ended_and_never_delivered(store: Store) -> None:
    store.broker.push([a_push("a", expires=0), a_push("b"), a_push("c", expires=3600)])
    assert ids(claim(store, limit=2)) == ["b", "c"]
    gone = record(store, "a")
    assert (gone.state, gone.finished_at is not None) == (State.CANCELLED, True)
    assert gone.error is not None and gone.error.type == "Expired"
    assert kinds_of(store, "a") == [EventKind.ENQUEUED, EventKind.EXPIRED]
    assert ids(store.results.wait(["a"], timeout_seconds=0).values()) == ["a"]


def test_expiry_counts_from_the_time_in_the_envelope(store: Store) -> None:
    now = moment(store.upkeep.now())
    store.broker.push(
        [
            a_push("past", expires_at=now - timedelta(seconds=1)),
            a_push("later", expires_at=now + timedelta(hours=1)),
            a_push("overruled", expires_at=now - timedelta(seconds=1), expires=3600),
        ]
    )
    assert ids(claim(store)) == ["later", "overruled"]
    assert state(store, "past") is State.CANCELLED


def test_a_claimed_task_does_not_expire_but_a_waiting_retry_does(store: Store) -> None:
    def claimed_in_time() -> list[Delivery]:
        store.broker.push([a_push(expires=0.3)])
        return claim(store)

    (delivery,) = until(claimed_in_time)
    let_time_pass(store, 0.35)
    assert store.broker.start([delivery.lease], worker=WORKER) == []
    assert store.broker.settle([retry(delivery)], worker=WORKER) == []
    assert claim(store) == []
    assert state(store, delivery.lease.id) is State.CANCELLED


def test_two_claimers_never_hold_one_delivery(store: Store, open_store: OpenStore) -> None:
    store.broker.push([a_push(f"a{n}") for n in range(200)])
    stores = [open_store() for _ in range(4)]

    def take(each: Store) -> list[str]:
        got: list[str] = []
        while deliveries := claim(each, limit=3):
            got += ids(deliveries)
        return got

    shares = together([partial(take, each) for each in stores])
    everything = [id for share in shares for id in share]
    assert sorted(everything) == sorted(f"a{n}" for n in range(200))


def test_a_claimer_that_races_with_settlers_sees_each_task_once(store: Store, open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(3)]
    total = 90

    def produce() -> list[str]:
        for n in range(total):
            store.broker.push([a_push(f"a{n}", priority=n % 10)])
        return []

    def consume(each: Store) -> list[str]:
        got: list[str] = []
        while sum(1 for r in each.results.get([f"a{n}" for n in range(total)]).values() if r.is_terminal) < total:
            deliveries = claim(each, limit=5)
            assert each.broker.settle([done(delivery) for delivery in deliveries], worker=WORKER) == []
            got += ids(deliveries)
        return got

    works: list[Callable[[], list[str]]] = [produce, *[partial(consume, each) for each in stores]]
    shares = together(works)
    assert sorted(id for share in shares for id in share) == sorted(f"a{n}" for n in range(total))
