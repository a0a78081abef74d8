"""A task that names prerequisites waits for them, and is released by the end of the last one, once."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, Delivery
from stem.core.envelope import Unique
from stem.core.errors import StoreRefused
from stem.core.lifecycle import EventKind, State
from support.background import in_thread, is_waiting, together
from support.builders import a_push, block, cancelled, dead, done, pushes, requeue, retry
from support.stores.calls import (
    WORKER,
    all_events,
    claim,
    claim_one,
    depth,
    expire,
    ids,
    kinds_of,
    let_time_pass,
    record,
    state,
)
from support.stores.graphs import counts, fail, is_blocked, states, stop, succeed, take, told
from support.until import until


def test_it_is_queued_and_counted_but_blocked(store: Store) -> None:
    receipts = store.broker.push([a_push("a"), a_push("b"), a_push("c", after=["a", "b"])])
    assert [(each.id, each.created) for each in receipts] == [("a", True), ("b", True), ("c", True)]
    assert counts(store) == (2, 0, 0, 0, 1)
    assert state(store, "c") is State.QUEUED
    assert [each.id for each in store.broker.peek("default", limit=10)] == ["a", "b"]
    assert told(store, "c") == [("enqueued", {}), ("blocked", {"missing": 2})]
    take(store, "a", "b")
    assert claim(store) == []
    assert not store.broker.wait(["default"], timeout_seconds=0)
    assert counts(store) == (0, 0, 2, 0, 1)


def test_a_queue_of_which_all_tasks_are_blocked_is_counted_and_can_be_looked_into(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"], queue="other")])
    assert store.broker.depth()["other"].blocked == 1
    found = store.broker.find("b")
    assert found is not None and (found.id, found.queue, found.attempt) == ("b", "other", 0)
    assert store.broker.peek("other", limit=10) == []


def test_prerequisites_are_in_the_envelope_when_the_task_runs(store: Store) -> None:
    sent = a_push("b", after=["a"], on_failure="run", inputs={"x": "a"}, args={"y": 1})
    store.broker.push([a_push("a"), sent])
    succeed(store, "a")
    assert claim_one(store).envelope == sent.envelope


def test_the_end_of_the_last_one_releases_it(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b"), a_push("c", after=["a", "b"])])
    a, b = take(store, "a", "b")
    store.broker.settle([done(a)], worker=WORKER)
    assert is_blocked(store, "c")
    assert counts(store) == (0, 0, 1, 0, 1)
    store.broker.settle([done(b)], worker=WORKER)
    assert counts(store) == (1, 0, 0, 0, 0)
    assert told(store, "c") == [("enqueued", {}), ("blocked", {"missing": 2}), ("released", {})]
    delivery = claim_one(store)
    assert (delivery.lease.id, delivery.attempt, delivery.deaths) == ("c", 0, 0)
    store.broker.settle([done(delivery, "c")], worker=WORKER)
    assert record(store, "c").result() == "c"


def test_one_batch_that_ends_all_of_them_releases_it_once(store: Store) -> None:
    members = [f"m{n}" for n in range(50)]
    store.broker.push([*pushes(*members), a_push("after", after=members)])
    succeed(store, *members)
    assert kinds_of(store, "after") == [EventKind.ENQUEUED, EventKind.BLOCKED, EventKind.RELEASED]
    assert ids(claim(store)) == ["after"]


def test_one_that_is_named_twice_counts_once(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b"), a_push("c", after=["a", "b", "a", "a"])])
    assert told(store, "c")[1] == ("blocked", {"missing": 2})
    a, b = take(store, "a", "b")
    store.broker.settle([done(a)], worker=WORKER)
    assert is_blocked(store, "c")
    store.broker.settle([done(b)], worker=WORKER)
    assert ids(claim(store)) == ["c"]


def test_a_release_comes_in_the_log_after_the_end_that_made_it(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"])])
    succeed(store, "a")
    assert [(event.task_id, str(event.kind)) for event in all_events(store)] == [
        ("a", "enqueued"),
        ("b", "enqueued"),
        ("b", "blocked"),
        ("a", "started"),
        ("a", "succeeded"),
        ("b", "released"),
    ]


def test_one_end_releases_all_that_wait_by_priority_and_then_the_oldest(store: Store) -> None:
    waiting = [a_push(f"w{n}", after=["a"], priority=9 if n == 3 else 5) for n in range(5)]
    store.broker.push([a_push("a"), *waiting, a_push("younger", priority=0)])
    store.broker.settle([done(claim_one(store))], worker=WORKER)
    assert ids(claim(store)) == ["w3", "w0", "w1", "w2", "w4", "younger"]


def test_a_chain_runs_in_order_across_queues(store: Store) -> None:
    links = [a_push(f"l{n}", after=[f"l{n - 1}"] if n else [], queue=f"q{n % 2}") for n in range(6)]
    store.broker.push(links)
    for n in range(6):
        assert sum(each.blocked for each in store.broker.depth().values()) == 5 - n
        delivery = claim_one(store, "q0", "q1")
        assert delivery.lease.id == f"l{n}"
        assert claim(store, "q0", "q1") == []
        store.broker.settle([done(delivery)], worker=WORKER)
    assert store.broker.depth() == {}


def test_a_diamond_meets_in_the_end(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"]), a_push("c", after=["a"]), a_push("d", after=["b", "c"])])
    for wave in (["a"], ["b", "c"], ["d"]):
        succeed(store, *wave)
    assert claim(store) == []


def test_its_delay_counts_from_its_release(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"], delay=0.3), a_push("c", after=["a"], delay=3600)])
    a = claim_one(store)
    let_time_pass(store, 0.3)
    assert counts(store) == (0, 0, 1, 0, 2)
    released = store.upkeep.now()
    store.broker.settle([done(a)], worker=WORKER)
    assert depth(store).delayed == 2 or store.upkeep.now() >= released + 0.3
    until(lambda: ids(claim(store)) == ["b"])
    assert store.upkeep.now() >= released + 0.3
    assert counts(store) == (0, 1, 1, 0, 0)


def test_it_is_not_due_before_the_moment_it_names(store: Store) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    yesterday = tomorrow - timedelta(days=2)
    store.broker.push([a_push("a"), a_push("b", after=["a"], not_before=tomorrow)])
    store.broker.push([a_push("c", after=["a"], not_before=yesterday)])
    succeed(store, "a")
    assert ids(claim(store)) == ["c"]
    (waiting,) = store.broker.peek("default", limit=10)
    assert (waiting.id, abs((waiting.due_at - tomorrow).total_seconds()) < 0.01) == ("b", True)


def test_one_that_has_expired_by_its_release_is_ended_when_claimed(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"], expires=0.01)])
    let_time_pass(store, 0.02)
    assert is_blocked(store, "b")
    succeed(store, "a")
    assert claim(store) == []
    assert kinds_of(store, "b")[-2:] == [EventKind.RELEASED, EventKind.EXPIRED]


@pytest.mark.parametrize("how", ["done", "passes"])
def test_prerequisites_that_have_succeeded_before_the_push_count_at_once(store: Store, how: str) -> None:
    store.broker.push(pushes("a", "b"))
    if how == "done":
        succeed(store, "a", "b")
    else:
        stop(store, "a", "b", passes=True)
    store.broker.push([a_push("c", after=["a", "b"]), a_push("d", after=["a", "b", "c"])])
    assert counts(store) == (1, 0, 0, 0, 1)
    assert told(store, "d")[1] == ("blocked", {"missing": 1})
    assert kinds_of(store, "c") == [EventKind.ENQUEUED]
    assert ids(claim(store)) == ["c"]


def test_the_delay_of_one_that_need_not_wait_counts_from_its_push(store: Store) -> None:
    store.broker.push(pushes("a"))
    succeed(store, "a")
    store.broker.push([a_push("b", after=["a"], delay=3600)])
    assert counts(store) == (0, 1, 0, 0, 0)


def test_one_that_has_failed_before_the_push_cancels_it_at_once(store: Store) -> None:
    store.broker.push(pushes("failed", "stopped", "waits"))
    store.broker.cancel(["waits"])
    failed, stopped = take(store, "failed", "stopped")
    store.broker.settle([dead(failed), cancelled(stopped)], worker=WORKER)
    for cause in ("failed", "stopped", "waits"):
        (receipt,) = store.broker.push([a_push(f"after-{cause}", after=[cause])])
        assert receipt.created
        assert told(store, f"after-{cause}") == [
            ("enqueued", {}),
            ("revoked", {"reason": "prerequisite-failed", "cause": cause}),
        ]
    assert counts(store) == (0, 0, 0, 1, 0)


def test_an_unknown_prerequisite_is_refused_and_nothing_is_stored(store: Store) -> None:
    store.broker.push(pushes("a"))
    with pytest.raises(StoreRefused, match="ghost"):
        store.broker.push([a_push("b"), a_push("c", after=["a", "ghost"]), a_push("d", unique="k")])
    assert store.results.get(["b", "c", "d"]) == {}
    assert counts(store) == (1, 0, 0, 0, 0)
    assert [event.task_id for event in all_events(store)] == ["a"]
    assert store.broker.push([a_push("e", unique="k")])[0].created
    succeed(store, "a", "e")


def test_a_prerequisite_comes_earlier_in_the_batch_and_not_later(store: Store) -> None:
    with pytest.raises(StoreRefused, match="late"):
        store.broker.push([a_push("b", after=["late"]), a_push("late")])
    assert store.results.get(["b", "late"]) == {}
    store.broker.push([a_push("late"), a_push("b", after=["late"])])
    assert is_blocked(store, "b")


def test_a_task_cannot_wait_for_itself(store: Store) -> None:
    with pytest.raises(StoreRefused):
        store.broker.push([a_push("a", after=["a"])])
    assert store.results.get(["a"]) == {}


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_known_id_pushed_again_is_a_no_op_whatever_it_names(store: Store, has_ended: bool) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"])])
    if has_ended:
        succeed(store, "a")
        succeed(store, "b")
    before = counts(store)
    again = [a_push("b", after=["ghost"]), a_push("b", after=["b"]), a_push("b", after=["a"], into="ghost")]
    assert [(each.id, each.created) for each in store.broker.push(again)] == [("b", False)] * 3
    assert counts(store) == before
    assert len(kinds_of(store, "b")) == (5 if has_ended else 2)


def test_an_id_that_came_earlier_in_the_batch_is_known_whatever_it_names(store: Store) -> None:
    receipts = store.broker.push([a_push("a"), a_push("a", after=["ghost"]), a_push("a", after=["a"])])
    assert [each.created for each in receipts] == [True, False, False]
    assert ids(claim(store)) == ["a"]


def test_a_unique_task_earlier_in_the_batch_can_be_waited_for_if_it_was_stored(store: Store) -> None:
    store.broker.push([a_push("a", unique="k"), a_push("b", after=["a"])])
    assert is_blocked(store, "b")
    with pytest.raises(StoreRefused, match="c"):  # answered with its holder, so it is no task
        store.broker.push([a_push("c", unique="k"), a_push("d", after=["c"])])
    assert store.results.get(["c", "d"]) == {}
    store.broker.push([a_push("e", after=["a"], unique=Unique("held", 3600)), a_push("f", after=["e"])])
    assert counts(store) == (1, 0, 0, 0, 3)


def test_a_follow_up_can_wait_for_the_task_that_ends_with_it_and_for_others(store: Store) -> None:
    store.broker.push(pushes("a", "other"))
    a, other = take(store, "a", "other")
    then = [a_push("b", after=["a"]), a_push("c", after=["b", "other"]), a_push("d", after=["other"])]
    store.broker.settle([done(a, then=then)], worker=WORKER)
    assert counts(store) == (1, 0, 1, 0, 2)
    store.broker.settle([done(other)], worker=WORKER)
    succeed(store, "b", "d")
    succeed(store, "c")


def test_a_follow_up_with_an_unknown_prerequisite_is_refused_and_nothing_is_settled(store: Store) -> None:
    store.broker.push(pushes("a", "b"))
    a, b = take(store, "a", "b")
    with pytest.raises(StoreRefused, match="ghost"):
        store.broker.settle([done(a), done(b, then=[a_push("c", after=["ghost"])])], worker=WORKER)
    assert states(store, "a", "b") == ["queued", "queued"]
    assert store.results.get(["c"]) == {}
    assert store.broker.settle([done(a), done(b)], worker=WORKER) == []


def test_follow_ups_of_a_lost_lease_block_no_other_push(store: Store) -> None:
    """Its lease is no longer valid, so whatever it names does not count."""
    store.broker.push(pushes("a", "b"))
    late = claim_one(store, lease=0.02)
    expire(store, late)
    again, b = take(store, "a", "b")
    refused = store.broker.settle(
        [done(late, then=[a_push("c", after=["ghost"])]), block(late, "ghost"), done(b)], worker=WORKER
    )
    assert refused == [late.lease, late.lease]
    assert states(store, "a", "b") == ["queued", "succeeded"]
    assert store.broker.settle([done(again)], worker=WORKER) == []


def test_a_retry_a_requeue_and_a_lost_lease_release_nobody(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"])])
    store.broker.settle([retry(claim_one(store))], worker=WORKER)
    store.broker.settle([requeue(claim_one(store))], worker=WORKER)
    lost = claim_one(store, lease=0.02)
    store.broker.start([lost.lease], worker=WORKER)
    expire(store, lost)
    assert is_blocked(store, "b")
    again = claim_one(store)
    store.broker.settle([done(again)], worker=WORKER)
    assert ids(claim(store)) == ["b"]


def test_an_end_that_is_told_twice_or_by_a_late_holder_counts_once(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b"), a_push("c", after=["a", "b"])])
    late = claim_one(store, lease=0.02)
    expire(store, late)
    a, b = take(store, "a", "b")
    assert store.broker.settle([done(late)], worker=WORKER) == [late.lease]
    assert is_blocked(store, "c")
    assert store.broker.settle([done(a), done(a)], worker=WORKER) == [a.lease]
    assert store.broker.settle([done(a)], worker=WORKER) == [a.lease]
    assert store.broker.settle([done(late)], worker=WORKER) == [late.lease]
    assert is_blocked(store, "c")
    store.broker.settle([done(b)], worker=WORKER)
    assert store.broker.settle([done(a), done(b)], worker=WORKER) == [a.lease, b.lease]
    assert kinds_of(store, "c").count(EventKind.RELEASED) == 1
    assert ids(claim(store)) == ["c"]


def test_holders_that_end_the_members_at_the_same_moment_release_once(store: Store, open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(4)]
    for round in range(10):
        members = [f"{round}m{n}" for n in range(4)]
        store.broker.push([*pushes(*members), a_push(f"{round}after", after=members)])
        held = take(store, *members)

        def end(at: Store, member: Delivery) -> object:
            return at.broker.settle([done(member)], worker=WORKER)

        together([partial(end, at, member) for at, member in zip(stores, held, strict=True)])
        assert kinds_of(store, f"{round}after").count(EventKind.RELEASED) == 1
        succeed(store, f"{round}after")


def test_a_push_that_meets_the_end_of_its_prerequisite_misses_nothing(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    for round in range(20):
        store.broker.push(pushes(f"a{round}"))
        (held,) = take(store, f"a{round}")
        works: list[Callable[[], object]] = [
            partial(other.broker.push, [a_push(f"b{round}", after=[f"a{round}"])]),
            partial(store.broker.settle, [done(held)], worker=WORKER),
        ]
        together(works)
        succeed(store, f"b{round}")


def test_a_release_wakes_who_waits_for_its_queue(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    store.broker.push([a_push("a"), a_push("b", after=["a"], queue="other")])
    a = claim_one(store)
    waiter = in_thread(lambda: other.broker.wait(["other"], timeout_seconds=30))
    assert is_waiting(waiter)
    store.broker.settle([done(a)], worker=WORKER)
    assert waiter.result(10)
    assert ids(claim(store, "other")) == ["b"]


def test_one_that_was_released_can_fail_and_be_replayed_like_any_other(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"])])
    succeed(store, "a")
    fail(store, "b")
    assert store.deadletters.get("b") is not None
    assert store.deadletters.replay(DeadFilter()) == ["b"]
    assert counts(store) == (1, 0, 0, 0, 0)
    succeed(store, "b")
