"""What the failure of a prerequisite means: cancelled, run all the same, or run only then; and how a replay mends it."""

from collections.abc import Callable

import pytest

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.delivery import DeadCall, DeadFilter
from stem.core.envelope import Supersedes, Unique
from stem.core.lifecycle import EventKind, State
from stem.core.outcome import Dead
from stem.core.prerequisites import prerequisite_error
from stem.core.record import TaskError
from support.background import in_thread, is_waiting
from support.builders import BOOM, a_join, a_push, an_envelope, cancelled, dead, done, pushes, retry
from support.stores.calls import WORKER, claim, claim_one, depth, ids, kinds_of, let_time_pass, record, state
from support.stores.graphs import counts, error_of, fail, is_blocked, last, states, stop, succeed, take, told
from support.until import until


def test_its_failure_cancels_what_waits_for_it(store: Store) -> None:
    store.broker.push([a_push("a", name="shop.pay"), a_push("b"), a_push("c", after=["a", "b"])])
    a, _ = take(store, "a", "b")
    store.broker.settle([dead(a)], worker=WORKER)
    ended = record(store, "c")
    assert (ended.state, ended.payload, ended.worker, ended.started_at) == (State.CANCELLED, None, None, None)
    assert ended.finished_at is not None and ended.attempt == 0
    assert ended.error == prerequisite_error("a", "shop.pay", State.FAILED, BOOM)
    assert ended.error.message == "a (shop.pay) failed: ValueError: boom"
    assert told(store, "c")[2:] == [("revoked", {"reason": "prerequisite-failed", "cause": "a"})]
    assert counts(store) == (0, 0, 1, 1, 0)
    found = store.broker.find("c")
    assert found is not None and found.id == "c", "it can be revived"


def crash(store: Store) -> None:
    delivery = claim_one(store, lease=0.02)
    store.broker.start([delivery.lease], worker=WORKER)
    until(lambda: store.broker.reclaim(max_deaths=1).dead == ["a"])


FAILURES: dict[str, tuple[Callable[[Store], object], TaskError | None]] = {
    "dead": (lambda store: store.broker.settle([dead(claim_one(store))], worker=WORKER), BOOM),
    "stopped": (
        lambda store: store.broker.settle([cancelled(claim_one(store), "why")], worker=WORKER),
        TaskError("Cancelled", "why"),
    ),
    "revoked": (lambda store: store.broker.cancel(["a"]), TaskError("Cancelled", "revoked")),
    "purged": (lambda store: store.broker.purge("default"), TaskError("Cancelled", "purged")),
    "crash-loop": (crash, None),
    "superseded": (
        lambda store: store.broker.push([a_push("new", unique=Unique("k", supersedes=Supersedes.WAITING))]),
        TaskError("Cancelled", "superseded"),
    ),
}


@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("on_failure", ["cancel", "run", "only"])
def test_every_end_but_a_success_is_a_failure(store: Store, how: str, on_failure: str) -> None:
    end, error = FAILURES[how]
    store.broker.push([a_push("a", unique="k"), a_push("b", after=["a"], on_failure=on_failure, queue="other")])
    end(store)
    if on_failure == "cancel":
        assert last(store, "b").data == {"reason": "prerequisite-failed", "cause": "a"}
        assert error_of(store, "b") == prerequisite_error("a", "demo.add", state(store, "a"), record(store, "a").error)
        assert error is None or record(store, "a").error == error
        assert claim(store, "other") == []
    else:
        assert kinds_of(store, "b")[-1] is EventKind.RELEASED
        assert ids(claim(store, "other")) == ["b"]
    assert depth(store, "other").blocked == 0


def test_one_that_expires_has_failed(store: Store) -> None:
    store.broker.push([a_push("a", expires=0.01), a_push("b", after=["a"]), a_push("c", after=["a"], on_failure="run")])
    let_time_pass(store, 0.02)
    until(lambda: ids(claim(store)) == ["c"])  # by the claim that ended it, or the next one
    assert states(store, "a", "b") == ["cancelled", "cancelled"]
    assert error_of(store, "b").message.startswith("a (demo.add) was cancelled: Expired: ")


def test_one_that_was_given_up_elsewhere_has_failed(store: Store) -> None:
    call = DeadCall(an_envelope("a"), Dead("retries-exhausted", BOOM), 2, 1.0)
    store.broker.insert_dead([call], worker=WORKER)
    store.broker.push([a_push("b", after=["a"]), a_push("c", after=["a"], on_failure="only")])
    assert told(store, "b")[1:] == [("revoked", {"reason": "prerequisite-failed", "cause": "a"})]
    assert ids(claim(store)) == ["c"]
    store.broker.push([a_push("d"), a_push("e", after=["d"])])
    store.broker.insert_dead([DeadCall(an_envelope("d"), Dead("retries-exhausted", BOOM))], worker=WORKER)
    assert is_blocked(store, "e"), "a known id is left alone"


def test_a_call_given_up_elsewhere_waits_for_nothing_when_it_is_replayed(store: Store) -> None:
    call = DeadCall(an_envelope("b", after=["gone"]), Dead("retries-exhausted", BOOM), 2, 1.0)
    assert store.broker.insert_dead([call], worker=WORKER)[0].created
    assert counts(store) == (0, 0, 0, 1, 0)
    store.deadletters.replay(DeadFilter())
    succeed(store, "b")


def test_a_cancellation_that_passes_is_a_success(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"]), a_push("c", after=["a"], on_failure="only")])
    stop(store, "a", passes=True)
    assert (state(store, "a"), error_of(store, "a").type) == (State.CANCELLED, "Cancelled")
    assert last(store, "c").data == {"reason": "not-needed"}
    assert ids(claim(store)) == ["b"]


def test_a_long_message_of_the_first_cause_is_cut(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"])])
    store.broker.settle([dead(claim_one(store), error=TaskError("E", "ü☃" * 1000, "stack"))], worker=WORKER)
    assert error_of(store, "b") == TaskError("PrerequisiteFailed", "a (demo.add) failed: E: " + "ü☃" * 150)


def test_a_failure_goes_all_the_way_down_and_names_its_first_cause(store: Store) -> None:
    store.broker.push([a_push("a"), *(a_push(f"{n}", after=[f"{n - 1}" if n else "a"]) for n in range(20))])
    store.broker.push([a_push("end", after=["3", "19", "a"])])
    fail(store, "a")
    everyone = [*map(str, range(20)), "end"]
    assert set(states(store, *everyone)) == {"cancelled"}
    assert {error_of(store, id).message for id in everyone} == {"a (demo.add) failed: ValueError: boom"}
    assert all(last(store, id).data == {"reason": "prerequisite-failed", "cause": "a"} for id in everyone)
    assert all(kinds_of(store, id).count(EventKind.REVOKED) == 1 for id in everyone)
    assert counts(store) == (0, 0, 0, 1, 0)


def test_a_task_that_raises_an_error_of_that_name_is_a_cause_of_its_own(store: Store) -> None:
    """What a task raises is hostile text."""
    store.broker.push([a_push("a"), a_push("b", after=["a"]), a_push("c", after=["b"])])
    said = TaskError("PrerequisiteFailed", "nobody (shop.pay) failed: it was not me")
    store.broker.settle([dead(claim_one(store), error=said)], worker=WORKER)
    for id in ("b", "c"):
        assert last(store, id).data == {"reason": "prerequisite-failed", "cause": "a"}
        assert error_of(store, id).message == f"a (demo.add) failed: PrerequisiteFailed: {said.message}"


def test_events_of_what_a_failure_cancels_name_its_tenant(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"], headers={"tenant": "x"})])
    fail(store, "a")
    assert told(store, "b") == [
        ("enqueued", {"tenant": "x"}),
        ("blocked", {"tenant": "x", "missing": 1}),
        ("revoked", {"tenant": "x", "reason": "prerequisite-failed", "cause": "a"}),
    ]


def test_one_that_runs_all_the_same_waits_until_all_have_ended(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b"), a_push("c"), a_push("d", after=["a", "b", "c"], on_failure="run")])
    a, b, c = take(store, "a", "b", "c")
    store.broker.settle([dead(a)], worker=WORKER)
    assert is_blocked(store, "d")
    store.broker.settle([done(b), cancelled(c)], worker=WORKER)
    succeed(store, "d")
    assert kinds_of(store, "d").count(EventKind.RELEASED) == 1


def test_a_failed_one_counts_at_once_for_a_later_push_that_runs_all_the_same(store: Store) -> None:
    store.broker.push(pushes("a", "b"))
    a, _ = take(store, "a", "b")
    store.broker.settle([dead(a)], worker=WORKER)
    store.broker.push([a_push("c", after=["a"], on_failure="run"), a_push("d", after=["a", "b"], on_failure="run")])
    assert counts(store) == (1, 0, 1, 1, 1)
    assert told(store, "d")[1] == ("blocked", {"missing": 1})


def test_one_that_runs_only_on_failure_is_released_by_the_first(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b"), a_push("c", after=["a", "b"], on_failure="only")])
    a, b = take(store, "a", "b")
    store.broker.settle([dead(a)], worker=WORKER)
    succeed(store, "c")
    store.broker.settle([dead(b)], worker=WORKER)
    store.deadletters.replay(DeadFilter())
    succeed(store, "a", "b")
    assert (state(store, "c"), claim(store)) == (State.SUCCEEDED, [])
    assert kinds_of(store, "c").count(EventKind.RELEASED) == 1


def test_one_that_runs_only_on_failure_is_not_needed_after_successes(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b"), a_push("c", after=["a", "b"], on_failure="only")])
    store.broker.push([a_push("d", after=["c"]), a_push("e", after=["c"], on_failure="run")])
    succeed(store, "a", "b")
    assert told(store, "c")[2:] == [("revoked", {"reason": "not-needed"})]
    assert error_of(store, "c") == TaskError("Cancelled", "not-needed")
    assert store.broker.find("c") is None, "it is never revived"
    assert error_of(store, "d").message == "c (demo.add) was cancelled: Cancelled: not-needed"
    assert ids(claim(store)) == ["e"]
    assert counts(store) == (0, 0, 1, 0, 0)


def test_one_that_runs_only_on_failure_and_comes_late_knows_at_once(store: Store) -> None:
    store.broker.push(pushes("good", "bad", "open"))
    good, bad, _ = take(store, "good", "bad", "open")
    store.broker.settle([done(good), dead(bad)], worker=WORKER)
    late = [["good"], ["good", "bad"], ["open", "bad"], ["good", "open"]]
    store.broker.push([a_push(f"l{n}", after=after, on_failure="only") for n, after in enumerate(late)])
    assert told(store, "l0")[1:] == [("revoked", {"reason": "not-needed"})]
    assert counts(store) == (2, 0, 1, 1, 1)
    assert ids(claim(store)) == ["l1", "l2"]


def test_a_replay_that_succeeds_revives_what_its_failure_cancelled(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"], args={"x": 1}), a_push("c", after=["b"])])
    fail(store, "a")
    store.deadletters.replay(DeadFilter())
    assert states(store, "a", "b", "c") == ["queued", "cancelled", "cancelled"]
    assert counts(store) == (1, 0, 0, 0, 0)
    succeed(store, "a")
    revived = record(store, "b")
    assert (revived.state, revived.error, revived.finished_at) == (State.QUEUED, None, None)
    assert kinds_of(store, "b")[2:] == [EventKind.REVOKED, EventKind.RELEASED]
    assert states(store, "c") == ["cancelled"]
    delivery = claim_one(store)
    assert (delivery.lease.id, delivery.attempt, delivery.envelope.arguments()) == ("b", 0, {"x": 1})
    store.broker.settle([done(delivery)], worker=WORKER)
    succeed(store, "c")
    assert states(store, "a", "b", "c") == ["succeeded"] * 3
    assert all(kinds_of(store, id).count(EventKind.RELEASED) == 1 for id in ("b", "c"))


def test_a_replay_that_fails_again_changes_nothing_for_what_it_cancelled(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"])])
    fail(store, "a")
    for _ in range(2):
        store.deadletters.replay(DeadFilter())
        fail(store, "a")
    assert kinds_of(store, "b") == [EventKind.ENQUEUED, EventKind.BLOCKED, EventKind.REVOKED]
    store.deadletters.replay(DeadFilter())
    succeed(store, "a")
    succeed(store, "b")


def test_one_with_two_failed_prerequisites_is_revived_when_both_are_mended(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b"), a_push("c"), a_push("d", after=["a", "b", "c"])])
    a, b, c = take(store, "a", "b", "c")
    store.broker.settle([dead(b)], worker=WORKER)
    store.broker.settle([dead(a)], worker=WORKER)
    assert last(store, "d").data["cause"] == "b"
    for mended in ("a", "b"):
        assert store.deadletters.replay(DeadFilter(ids=(mended,))) == [mended]
        succeed(store, mended)
        assert state(store, "d") is State.CANCELLED
    store.broker.settle([done(c)], worker=WORKER)
    succeed(store, "d")


@pytest.mark.parametrize("order", ["dead first", "done first", "with more"])
def test_a_failure_and_a_success_in_one_batch_count_each_for_itself(store: Store, order: str) -> None:
    store.broker.push([*pushes("a", "b", "c", "x", "y"), a_push("d", after=["a", "b", "c"]), a_join("j", "b", "x")])
    store.broker.push([a_push("run", after=["a", "b", "y"], on_failure="run")])
    a, b, c, x, y = take(store, "a", "b", "c", "x", "y")
    endings = [dead(a), done(b), dead(x), done(y)] if order == "with more" else [dead(a), done(b)]
    store.broker.settle(endings[::-1] if order == "done first" else endings, worker=WORKER)
    assert state(store, "d") is State.CANCELLED
    store.broker.settle([done(c)], worker=WORKER)
    assert (state(store, "d"), kinds_of(store, "d").count(EventKind.RELEASED)) == (State.CANCELLED, 0)
    store.broker.settle([done(x), done(y)], worker=WORKER)
    store.deadletters.replay(DeadFilter())
    for _ in range(2):
        store.broker.settle([done(each) for each in claim(store)], worker=WORKER)
    assert states(store, "d", "j", "run") == ["succeeded"] * 3
    assert all(kinds_of(store, id).count(EventKind.RELEASED) == 1 for id in ("d", "run"))


def test_a_success_counts_once_for_what_its_own_batch_cancels(store: Store) -> None:
    """Whatever else waits for it and was cancelled before."""
    store.broker.push(pushes("gone", "a", "b", "c"))
    gone, a, b, c = take(store, "gone", "a", "b", "c")
    store.broker.push([a_push("before", after=["gone", "b"]), a_push("d", after=["a", "b", "c"])])
    store.broker.settle([dead(gone)], worker=WORKER)
    store.broker.settle([dead(a), done(b)], worker=WORKER)
    store.broker.settle([done(c)], worker=WORKER)
    assert states(store, "before", "d") == ["cancelled", "cancelled"]
    store.deadletters.replay(DeadFilter())
    succeed(store, "gone", "a")
    succeed(store, "before", "d")


def test_one_that_fails_after_the_cancellation_still_has_to_be_mended(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b"), a_push("c", after=["a", "b"])])
    a, b = take(store, "a", "b")
    store.broker.settle([dead(a), dead(b)], worker=WORKER)
    assert kinds_of(store, "c").count(EventKind.REVOKED) == 1
    store.deadletters.replay(DeadFilter(ids=("a",)))
    succeed(store, "a")
    assert state(store, "c") is State.CANCELLED
    store.deadletters.replay(DeadFilter(ids=("b",)))
    succeed(store, "b")
    succeed(store, "c")


def test_a_late_push_that_was_cancelled_at_once_is_revived_as_well(store: Store) -> None:
    store.broker.push(pushes("a", "b"))
    fail(store, "a", "b")
    store.broker.push([a_push("c", after=["a", "b"], delay=3600)])
    store.deadletters.replay(DeadFilter())
    succeed(store, "a", "b")
    assert (state(store, "c"), counts(store)) == (State.QUEUED, (0, 1, 0, 0, 0))


def test_a_failed_one_that_counted_does_not_count_again_when_it_is_replayed(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b"), a_push("c", after=["a", "b"], on_failure="run")])
    a, b = take(store, "a", "b")
    store.broker.settle([dead(a)], worker=WORKER)
    for _ in range(2):
        store.deadletters.replay(DeadFilter())
        fail(store, "a")
    store.deadletters.replay(DeadFilter())
    succeed(store, "a")
    assert is_blocked(store, "c")
    store.broker.settle([done(b)], worker=WORKER)
    succeed(store, "c")


@pytest.mark.parametrize("how", ["cancel", "purge"])
def test_a_task_revoked_while_blocked_is_never_revived(store: Store, how: str) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"], queue="other"), a_push("c", after=["b"])])
    if how == "cancel":
        assert store.broker.cancel(["b", "ghost"], reason="not wanted") == ["b"]
    else:
        assert store.broker.purge("other") == 1
    assert error_of(store, "b") == TaskError("Cancelled", "purged" if how == "purge" else "not wanted")
    assert last(store, "c").data == {"reason": "prerequisite-failed", "cause": "b"}
    assert counts(store, "other") == (0, 0, 0, 0, 0)
    assert store.broker.find("b") is None
    fail(store, "a")
    store.deadletters.replay(DeadFilter())
    succeed(store, "a")
    assert states(store, "b", "c") == ["cancelled", "cancelled"]
    assert claim(store, "default", "other") == []


def test_a_cancelled_task_is_left_alone_by_cancel_and_purge(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"])])
    fail(store, "a")
    assert (store.broker.cancel(["b"]), store.broker.purge("default")) == ([], 0)
    store.deadletters.replay(DeadFilter())
    succeed(store, "a")
    succeed(store, "b")


def test_a_task_and_what_waits_for_it_can_be_cancelled_in_one_call(store: Store) -> None:
    chain = [a_push("a"), a_push("b", after=["a"]), a_push("c", after=["b"])]
    store.broker.push(chain)
    assert sorted(store.broker.cancel(["b", "a"])) == ["a", "b"]
    assert [last(store, id).data["reason"] for id in "abc"] == ["revoked", "revoked", "prerequisite-failed"]
    store.broker.push([a_push(f"p{n}", after=[f"p{n - 1}"] if n else []) for n in range(3)])
    assert store.broker.purge("default") == 3
    assert [last(store, f"p{n}").data for n in range(3)] == [{"reason": "purged"}] * 3
    assert counts(store) == (0, 0, 0, 0, 0)


def test_a_purge_reaches_what_waits_in_other_queues_without_counting_it(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"], queue="other")])
    assert store.broker.purge("default") == 1
    assert last(store, "b").data == {"reason": "prerequisite-failed", "cause": "a"}
    assert counts(store, "other") == (0, 0, 0, 0, 0)


def test_a_task_that_waited_for_a_purged_dead_letter_stays_cancelled(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"])])
    fail(store, "a")
    assert store.deadletters.purge(DeadFilter()) == 1
    store.broker.push([a_push("c", after=["a"])])
    assert states(store, "b", "c") == ["cancelled", "cancelled"]


def test_a_retry_is_no_failure(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"], on_failure="only"), a_push("c", after=["a"])])
    store.broker.settle([retry(claim_one(store))], worker=WORKER)
    assert is_blocked(store, "b", "c")
    fail(store, "a")
    succeed(store, "b")


def test_the_unique_key_of_one_that_a_failure_cancels_is_free(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b", after=["a"], unique="k"), a_push("c", after=["b"], unique="held")])
    store.broker.push([a_push("d", after=["b"], unique=Unique("some time", 3600))])
    assert store.broker.push([a_push("e", unique="k")])[0].id == "b", "held while it is blocked"
    fail(store, "a")
    again = [a_push("e", unique="k"), a_push("f", unique="held"), a_push("g", unique="some time")]
    assert all(receipt.created for receipt in store.broker.push(again))
    store.broker.cancel(["f", "g"])
    store.deadletters.replay(DeadFilter())
    succeed(store, "a", "e")
    assert store.broker.push([a_push("h", unique="k")])[0].created, "what is revived does not take its key back"


def test_a_caller_waiting_for_the_result_is_woken_by_the_failure(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    store.broker.push([a_push("a"), a_push("b", after=["a"]), a_push("c", after=["b"])])
    a = claim_one(store)
    waiter = in_thread(lambda: other.results.wait(["c"], timeout_seconds=30))
    assert is_waiting(waiter)
    store.broker.settle([dead(a)], worker=WORKER)
    assert waiter.result(10)["c"].state is State.CANCELLED


@pytest.mark.parametrize("seconds", [None, 3600.0])
def test_a_task_that_is_cancelled_as_it_is_pushed_holds_no_key_and_gets_none_when_it_is_revived(
    store: Store, seconds: float | None
) -> None:
    key = Unique("k", seconds)
    store.broker.push(pushes("a"))
    fail(store, "a")
    assert [each.created for each in store.broker.push([a_push("b", unique=key, after=["a"])])] == [True]
    store.deadletters.replay(DeadFilter())
    succeed(store, "a")
    assert store.broker.push([a_push("c", unique=key)])[0].created
    succeed(store, "b", "c")


def test_a_key_that_a_push_takes_and_frees_can_be_taken_by_the_next_of_the_batch(store: Store) -> None:
    store.broker.push(pushes("a"))
    fail(store, "a")
    key = Unique("k", None)
    batch = [a_push("b", unique=key, after=["a"]), a_join("j", unique=key), a_push("c", unique=key)]
    assert [(each.id, each.created) for each in store.broker.push([*batch, a_push("d", unique=key)])] == [
        ("b", True),
        ("j", True),
        ("c", True),
        ("c", False),
    ]
