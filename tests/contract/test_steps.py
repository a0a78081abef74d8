"""What an attempt has done already stays with its task, and an event reaches a task whenever it begins to wait."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, Delivery, Lease
from stem.core.lifecycle import EventKind, State
from stem.core.settings.app import Retention
from support.background import in_thread, is_waiting, together
from support.builders import a_push, block, cancelled, dead, done, pushes, requeue, retry
from support.stores.calls import (
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
    state,
)
from support.stores.graphs import counts, fail, succeed
from support.stores.lifecycle_check import walk
from support.until import until

HOUR = 3600.0


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def steps(store: Store, id: str) -> list[tuple[str, Any]]:
    """Name and value of each, in order."""
    return [(step.name, msgspec.json.decode(step.payload)) for step in store.steps.all(id)]


def keep(store: Store, held: Delivery | Lease, name: str, value: Any = None) -> bool:
    return store.steps.record(held.lease if isinstance(held, Delivery) else held, name, raw(value))


def send(store: Store, id: str, event: str, value: Any = None) -> bool:
    return store.steps.send(id, event, raw(value))


def test_steps_come_back_in_the_order_in_which_they_were_kept(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    assert steps(store, "a") == []
    kept: list[tuple[str, Any]] = [("z", {"x": [1, None]}), ("b", None), ("a", "ü☃\\\n"), ("#2", 1.5)]
    began = store.upkeep.now()
    for name, value in kept:
        assert keep(store, delivery, name, value)
    assert steps(store, "a") == kept
    assert all(type(step.payload) is msgspec.Raw for step in store.steps.all("a"))
    first = store.steps.all("a")[0]
    assert abs(first.at.timestamp() - began) < 30 and first.at.utcoffset() == timedelta(0)
    assert bytes(store.steps.all("a")[1].payload) == b"null"


def test_the_first_result_of_a_name_stays(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    assert keep(store, delivery, "pay", 1)
    assert keep(store, delivery, "pay", 2)
    assert steps(store, "a") == [("pay", 1)]
    assert kinds_of(store, "a").count(EventKind.STEP) == 1


def test_each_step_is_one_event_with_its_name(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a", headers={"tenant": "x"}))
    store.broker.start([delivery.lease], worker=WORKER)
    keep(store, delivery, "pay")
    keep(store, delivery, "ship")
    told = events_of(store, "a")[2:]
    assert [(e.kind, e.data) for e in told] == [
        (EventKind.STEP, {"tenant": "x", "step": "pay"}),
        (EventKind.STEP, {"tenant": "x", "step": "ship"}),
    ]
    assert [(e.attempt, e.worker, e.started_at) for e in told] == [(0, WORKER, record(store, "a").started_at)] * 2
    assert state(store, "a") is State.RUNNING


def test_a_step_kept_before_the_start_was_told_is_a_legal_life(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    keep(store, delivery, "pay")
    assert walk(events_of(store, "a")) is State.QUEUED
    store.broker.settle([done(delivery)], worker=WORKER)
    assert walk(events_of(store, "a")) is State.SUCCEEDED


def test_steps_stay_across_retry_requeue_reclaim_crash_and_replay(store: Store) -> None:
    store.broker.push(pushes("a"))
    for again in (retry, requeue, partial(requeue, died=True)):
        delivery = claim_one(store)
        assert keep(store, delivery, f"s{len(steps(store, 'a'))}", again is retry)
        store.broker.settle([again(delivery)], worker=WORKER)
    lost = claim_one(store, lease=0.05)
    keep(store, lost, "s3", 3)
    expire(store, lost)
    keep(store, gone := claim_one(store), "s4", 4)
    store.broker.settle([dead(gone)], worker=WORKER)
    assert [name for name, _ in steps(store, "a")] == ["s0", "s1", "s2", "s3", "s4"]
    store.deadletters.replay(DeadFilter())
    again_held = claim_one(store)
    keep(store, again_held, "s0", "new")
    keep(store, again_held, "s5", 5)
    store.broker.settle([done(again_held)], worker=WORKER)
    assert steps(store, "a") == [("s0", True), ("s1", False), ("s2", False), ("s3", 3), ("s4", 4), ("s5", 5)]


def test_a_worker_that_has_lost_its_lease_writes_nothing(store: Store) -> None:
    late = push_and_claim(store, a_push("a"), lease=0.02)
    expire(store, late)
    assert not keep(store, late, "pay", "late")
    current = claim_one(store)
    assert not keep(store, late, "pay", "late")
    assert not keep(store, Lease("ghost", 1), "pay")
    assert steps(store, "a") == [] == steps(store, "ghost")
    assert keep(store, current, "pay", "mine")
    store.broker.settle([done(current)], worker=WORKER)
    assert not keep(store, current, "more")
    assert steps(store, "a") == [("pay", "mine")]
    assert kinds_of(store, "a").count(EventKind.STEP) == 1


def test_a_lease_that_has_run_out_counts_until_the_task_is_taken_back(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"), lease=0.01)
    let_time_pass(store, 0.02)
    assert keep(store, delivery, "pay", 1)
    assert steps(store, "a") == [("pay", 1)]


def test_steps_of_different_tasks_and_namespaces_live_apart(open_store: OpenStore, namespace: str) -> None:
    here, there = open_store(), open_store(f"{namespace}-2")
    for store, value in ((here, "here"), (there, "there")):
        store.broker.push(pushes("a", "b"))
        a, _ = claim(store)
        keep(store, a, "pay", value)
    assert [steps(here, "a"), steps(there, "a"), steps(here, "b")] == [[("pay", "here")], [("pay", "there")], []]
    assert send(here, "b", "go")
    assert steps(there, "b") == []


def test_many_and_large_steps_come_back_whole(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    kept = [(f"step {n}", "x" * n * 100) for n in range(200)]
    for name, value in kept:
        keep(store, delivery, name, value)
    assert steps(store, "a") == kept


def test_holders_that_keep_the_same_step_at_once_keep_one(store: Store, open_store: OpenStore) -> None:
    delivery = push_and_claim(store, a_push("a"))
    stores = [open_store() for _ in range(4)]
    assert all(together([partial(keep, each, delivery, "pay", n) for n, each in enumerate(stores)]))
    assert len(steps(store, "a")) == 1
    assert kinds_of(store, "a").count(EventKind.STEP) == 1


def test_steps_go_with_the_record_of_their_task(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(results_seconds=0.05))
    store.broker.push(pushes("a", "b"))
    a, b = claim(store)
    keep(store, a, "pay")
    keep(store, b, "pay")
    store.broker.settle([done(a)], worker=WORKER)

    def is_gone() -> bool:
        while store.upkeep.prune():
            pass
        return steps(store, "a") == []

    until(is_gone)
    assert steps(store, "b") == [("pay", None)]


def test_an_id_that_is_used_again_begins_without_steps(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(results_seconds=0.01))
    keeper = open_store()
    delivery = push_and_claim(keeper, a_push("a"))
    keep(keeper, delivery, "pay", "old")
    keeper.broker.settle([done(delivery)], worker=WORKER)
    until(lambda: not store.results.get(["a"]))
    assert store.broker.push(pushes("a"))[0].created
    assert steps(store, "a") == []
    assert keep(store, claim_one(store), "pay", "new")
    assert steps(store, "a") == [("pay", "new")]


def test_a_dead_letter_keeps_its_steps_as_long_as_it_lies_there(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(results_seconds=0.01))
    delivery = push_and_claim(store, a_push("a"))
    keep(store, delivery, "pay", 1)
    store.broker.settle([dead(delivery)], worker=WORKER)
    let_time_pass(store, 0.02)
    while store.upkeep.prune():
        pass
    assert steps(store, "a") == [("pay", 1)]


def test_an_event_that_was_sent_before_is_found(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    keep(store, delivery, "first")
    assert send(store, "a", "paid", {"sum": 5})
    assert steps(store, "a") == [("first", None), ("event:paid", {"sum": 5})]
    store.broker.settle([requeue(delivery, HOUR, event="paid")], worker=WORKER)
    assert counts(store) == (1, 0, 0, 0, 0)
    assert claim_one(store).lease.id == "a"


def test_an_event_makes_the_task_that_waits_for_it_due(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    store.broker.settle([requeue(delivery, HOUR, event="paid", ran=0.0)], worker=WORKER)
    assert counts(store) == (0, 1, 0, 0, 0)
    assert send(store, "a", "shipped"), "another event"
    assert counts(store) == (0, 1, 0, 0, 0)
    assert send(store, "a", "paid", [1])
    assert counts(store) == (1, 0, 0, 0, 0)
    again = claim_one(store)
    assert (again.lease.id, again.attempt, again.deaths) == ("a", 0, 0)
    assert steps(store, "a") == [("event:shipped", None), ("event:paid", [1])]


def test_a_task_that_waits_for_an_event_is_due_after_its_delay_at_the_latest(store: Store) -> None:
    store.broker.settle([requeue(push_and_claim(store, a_push("a")), 0.05, event="paid")], worker=WORKER)
    until(lambda: ids(claim(store)) == ["a"])
    assert steps(store, "a") == []


@pytest.mark.parametrize("when", ["waiting", "delayed", "blocked", "running", "to be retried"])
def test_an_event_is_kept_for_a_task_that_has_not_begun_to_wait_and_changes_nothing_else(
    store: Store, when: str
) -> None:
    store.broker.push([a_push("p"), a_push("b", after=["p"]), a_push("d", delay=HOUR)])
    id = {"waiting": "p", "delayed": "d", "blocked": "b"}.get(when, "p")
    if when in ("running", "to be retried"):
        delivery = claim_one(store)
        store.broker.start([delivery.lease], worker=WORKER)
        if when == "to be retried":
            store.broker.settle([retry(delivery, HOUR)], worker=WORKER)
    before = counts(store)
    assert send(store, id, "paid", when)
    assert (counts(store), steps(store, id)) == (before, [("event:paid", when)])
    assert EventKind.STEP not in kinds_of(store, id)


def test_the_first_event_of_a_name_stays(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    assert send(store, "a", "paid", 1)
    assert send(store, "a", "paid", 2)
    store.broker.settle([requeue(delivery, HOUR, event="other")], worker=WORKER)
    assert send(store, "a", "paid", 3)
    assert steps(store, "a") == [("event:paid", 1)]
    assert counts(store) == (0, 1, 0, 0, 0)


def test_an_event_may_be_waited_for_again_and_again(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    for n in range(3):
        store.broker.settle([requeue(delivery, HOUR, event=f"e{n}")], worker=WORKER)
        assert claim(store) == []
        send(store, "a", f"e{n}", n)
        delivery = claim_one(store)
        store.broker.settle([requeue(delivery, HOUR, event=f"e{n}")], worker=WORKER)
        delivery = claim_one(store)
    assert [value for _, value in steps(store, "a")] == [0, 1, 2]


@pytest.mark.parametrize("ending", [done, dead, cancelled])
def test_an_event_for_a_task_that_has_ended_or_is_unknown_is_refused(store: Store, ending: Any) -> None:
    store.broker.settle([ending(push_and_claim(store, a_push("a")))], worker=WORKER)
    assert not send(store, "a", "paid")
    assert not send(store, "ghost", "paid")
    assert steps(store, "a") == [] == steps(store, "ghost")


def test_an_event_for_a_task_that_a_failure_cancelled_is_refused(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"])])
    fail(store, "a")
    assert not send(store, "b", "paid")
    store.deadletters.replay(DeadFilter())
    succeed(store, "a")
    assert send(store, "b", "paid")


@pytest.mark.parametrize("how", ["retry", "requeue", "block"])
def test_a_task_that_was_claimed_since_no_longer_waits_for_its_event(store: Store, how: str) -> None:
    store.broker.push([a_push("other", delay=HOUR)])
    store.broker.settle([requeue(push_and_claim(store, a_push("a")), 0.0, event="paid")], worker=WORKER)
    delivery = claim_one(store)
    match how:
        case "retry":
            store.broker.settle([retry(delivery, HOUR)], worker=WORKER)
        case "requeue":
            store.broker.settle([requeue(delivery, HOUR)], worker=WORKER)
        case _:
            store.broker.settle([block(delivery, "other")], worker=WORKER)
    assert send(store, "a", "paid")
    assert claim(store) == []
    assert depth(store).ready == 0


def test_an_event_wakes_a_worker_that_waits_for_the_queue(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    store.broker.settle([requeue(push_and_claim(store, a_push("a")), HOUR, event="paid")], worker=WORKER)
    waiter = in_thread(lambda: other.broker.wait(["default"], timeout_seconds=30))
    assert is_waiting(waiter)
    assert send(store, "a", "paid")
    assert waiter.result(10)
    assert ids(claim(store)) == ["a"]


def test_a_task_cancelled_while_it_waits_for_an_event_stays_cancelled(store: Store) -> None:
    store.broker.settle([requeue(push_and_claim(store, a_push("a")), HOUR, event="paid")], worker=WORKER)
    assert store.broker.cancel(["a"]) == ["a"]
    assert not send(store, "a", "paid")
    assert claim(store) == []


@pytest.mark.timeout(120)
def test_a_task_that_begins_to_wait_and_its_event_never_miss_each_other(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    for round in range(200):
        delivery = push_and_claim(store, a_push(f"t{round}"))
        works: list[Callable[[], object]] = [
            partial(store.broker.settle, [requeue(delivery, HOUR, event="paid")], worker=WORKER),
            partial(send, other, f"t{round}", "paid", round),
        ]
        together(works)
        (again,) = claim(store)
        assert again.lease.id == f"t{round}"
        store.broker.settle([done(again)], worker=WORKER)
    assert counts(store) == (0, 0, 0, 0, 0)
