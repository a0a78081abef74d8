"""Joins end by themselves when their members have ended, and so does a task that blocks on others."""

from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from conftest import OpenStore
from stem.contracts.staging import Part, Promotion, calls_of
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, Delivery
from stem.core.envelope import Push
from stem.core.errors import StoreRefused, UsageError
from stem.core.lifecycle import EventKind, State
from stem.core.prerequisites import CANVAS, JOIN, spawned
from stem.core.record import TaskError
from support.background import in_thread, is_waiting, together
from support.builders import a_join, a_push, block, cancelled, dead, done, pushes, retry
from support.stores.calls import (
    WORKER,
    all_events,
    claim,
    claim_one,
    events_of,
    expire,
    ids,
    kinds_of,
    push_and_claim,
    record,
    state,
)
from support.stores.graphs import counts, error_of, fail, is_blocked, last, states, succeed, take, told
from support.stores.lifecycle_check import walk


@pytest.mark.parametrize("name", [JOIN, CANVAS])
def test_a_join_ends_with_its_last_member_and_its_payload_is_its_arguments(store: Store, name: str) -> None:
    args = {"of": ["a", "b"], "text": "ü☃\\", "none": None}
    store.broker.push([a_push("a"), a_push("b"), a_join("j", "a", "b", name=name, args=args, meta={"by": "me"})])
    assert counts(store) == (2, 0, 0, 0, 1)
    a, b = take(store, "a", "b")
    store.broker.settle([done(a, 1)], worker=WORKER)
    assert is_blocked(store, "j")
    store.broker.settle([done(b, 2)], worker=WORKER)
    ended = record(store, "j")
    assert (ended.state, ended.result(), ended.error) == (State.SUCCEEDED, args, None)
    assert (ended.worker, ended.started_at, ended.attempt, ended.meta) == (None, None, 0, {"by": "me"})
    assert ended.finished_at is not None
    assert told(store, "j") == [("enqueued", {}), ("blocked", {"missing": 2}), ("joined", {})]
    assert (claim(store), store.broker.depth(), store.broker.find("j")) == ([], {}, None)


def test_a_join_without_members_ends_in_the_push(store: Store) -> None:
    (receipt,) = store.broker.push([a_join("j", args={"x": []})])
    assert receipt.created
    assert (state(store, "j"), record(store, "j").result()) == (State.SUCCEEDED, {"x": []})
    assert told(store, "j") == [("enqueued", {}), ("joined", {})]
    assert store.broker.depth() == {}
    assert not store.broker.push([a_join("j")])[0].created


def test_a_join_of_what_has_ended_ends_in_the_push_and_so_does_what_waits_for_it(store: Store) -> None:
    store.broker.push(pushes("a"))
    succeed(store, "a")
    store.broker.push([a_join("j", "a"), a_join("k", "j"), a_push("after", after=["k"])])
    assert states(store, "j", "k") == ["succeeded", "succeeded"]
    assert ids(claim(store)) == ["after"]


def test_joins_of_joins_end_from_within(store: Store) -> None:
    inner = [a_join(f"j{n}", f"a{n}", f"b{n}") for n in range(3)]
    members = pushes(*(f"{side}{n}" for side in "ab" for n in range(3)))
    store.broker.push([*members, *inner, a_join("outer", "j0", "j1", "j2"), a_push("after", after=["outer"])])
    assert counts(store) == (6, 0, 0, 0, 5)
    held = {each.lease.id: each for each in claim(store)}
    store.broker.settle([done(held[f"a{n}"]) for n in range(3)], worker=WORKER)
    store.broker.settle([done(held[f"b{n}"]) for n in range(2)], worker=WORKER)
    assert states(store, "j0", "j1", "j2", "outer") == ["succeeded", "succeeded", "queued", "queued"]
    store.broker.settle([done(held["b2"])], worker=WORKER)
    assert states(store, "j2", "outer") == ["succeeded", "succeeded"]
    assert ids(claim(store)) == ["after"]


def test_a_join_is_cancelled_by_a_failed_member_and_revived_by_its_replay(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b"), a_join("j", "a", "b", args={"x": 1}), a_push("after", after=["j"])])
    a, b = take(store, "a", "b")
    store.broker.settle([dead(a), done(b)], worker=WORKER)
    assert states(store, "j", "after") == ["cancelled", "cancelled"]
    assert last(store, "after").data["cause"] == "a"
    store.deadletters.replay(DeadFilter())
    succeed(store, "a")
    ended = record(store, "j")
    assert (ended.state, ended.error, ended.result()) == (State.SUCCEEDED, None, {"x": 1})
    assert kinds_of(store, "j")[-2:] == [EventKind.REVOKED, EventKind.JOINED]
    succeed(store, "after")


def test_a_join_that_runs_all_the_same_ends_with_all_of_its_members(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("b"), a_join("j", "a", "b", on_failure="run")])
    a, b = take(store, "a", "b")
    store.broker.settle([dead(a)], worker=WORKER)
    assert is_blocked(store, "j")
    store.broker.settle([cancelled(b)], worker=WORKER)
    assert state(store, "j") is State.SUCCEEDED


def test_a_join_that_ends_only_on_failure_ends_by_the_first_one_or_is_not_needed(store: Store) -> None:
    store.broker.push(
        [*pushes("a", "b"), a_join("j", "a", "b", on_failure="only"), a_join("k", "b", on_failure="only")]
    )
    a, b = take(store, "a", "b")
    store.broker.settle([dead(a)], worker=WORKER)
    assert states(store, "j", "k") == ["succeeded", "queued"]
    store.broker.settle([done(b)], worker=WORKER)
    assert states(store, "j", "k") == ["succeeded", "cancelled"]
    store.broker.push([a_join("late", "b", "a", on_failure="only"), a_join("vain", "b", on_failure="only")])
    assert states(store, "late", "vain") == ["succeeded", "cancelled"]


def test_a_join_frees_its_unique_key_and_holds_it_until_then(store: Store) -> None:
    store.broker.push([a_push("a"), a_join("j", "a", unique="k")])
    assert store.broker.push([a_push("b", unique="k")])[0].id == "j"
    succeed(store, "a")
    assert store.broker.push([a_push("b", unique="k")])[0].created


def test_a_join_can_be_cancelled_and_purged_while_it_is_blocked(store: Store) -> None:
    store.broker.push([a_push("a"), a_join("j", "a", queue="other"), a_join("k", "a", queue="other")])
    assert store.broker.cancel(["j"]) == ["j"]
    assert store.broker.purge("other") == 1
    succeed(store, "a")
    assert states(store, "j", "k") == ["cancelled", "cancelled"]


def test_a_caller_waiting_for_a_join_is_woken_by_the_end_of_its_last_member(
    store: Store, open_store: OpenStore
) -> None:
    other = open_store()
    store.broker.push([a_push("a"), a_join("j", "a"), a_join("outer", "j")])
    a = claim_one(store)
    waiter = in_thread(lambda: other.results.wait(["outer"], timeout_seconds=30))
    assert is_waiting(waiter)
    store.broker.settle([done(a)], worker=WORKER)
    assert waiter.result(10)["outer"].state is State.SUCCEEDED


@pytest.mark.timeout(180)
def test_a_join_of_very_many_members_ends_once(store: Store) -> None:
    members = [f"m{n:05d}" for n in range(10_001)]
    store.broker.push([*pushes(*members), a_join("j", *members), a_push("after", after=["j"])])
    assert counts(store) == (10_001, 0, 0, 0, 2)
    assert told(store, "j")[1] == ("blocked", {"missing": 10_001})
    while held := claim(store, limit=1000):
        if held[0].lease.id == "after":
            break
        assert state(store, "j") is State.QUEUED
        assert store.broker.settle([done(each) for each in held], worker=WORKER) == []
    assert ids(held) == ["after"]
    assert counts(store) == (0, 0, 1, 0, 0)
    assert kinds_of(store, "j") == [EventKind.ENQUEUED, EventKind.BLOCKED, EventKind.JOINED]


def test_a_task_pushed_into_a_join_is_waited_for_as_well(store: Store) -> None:
    store.broker.push([a_push("a"), a_join("j", "a", meta={"by": "me"})])
    store.broker.push([a_push("s1", into="j"), a_push("s2", after=["a"], into="j")])
    assert record(store, "j").meta == {"by": "me", "spawned.s1": True, "spawned.s2": True}
    assert spawned(record(store, "j").meta) == ["s1", "s2"]
    assert counts(store) == (2, 0, 0, 0, 2)
    succeed(store, "a", "s1")
    assert is_blocked(store, "j")
    succeed(store, "s2")
    assert state(store, "j") is State.SUCCEEDED
    assert spawned(record(store, "j").meta) == ["s1", "s2"]


def test_a_member_that_ends_can_leave_another_behind_and_the_join_waits_for_it(store: Store) -> None:
    store.broker.push([a_push("a"), a_join("j", "a")])
    store.broker.settle([done(claim_one(store), then=[a_push("s", into="j")])], worker=WORKER)
    assert is_blocked(store, "j")
    succeed(store, "s")
    assert state(store, "j") is State.SUCCEEDED


def test_a_failed_task_that_was_pushed_into_a_join_cancels_the_join(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("bad"), a_join("j", "a")])
    store.broker.push([a_push("s", into="j")])
    a, bad, s = take(store, "a", "bad", "s")
    store.broker.settle([dead(s), dead(bad)], worker=WORKER)
    assert last(store, "j").data["cause"] == "s"
    store.deadletters.replay(DeadFilter(ids=("s",)))
    store.broker.settle([done(a)], worker=WORKER)
    succeed(store, "s")
    assert state(store, "j") is State.SUCCEEDED
    store.broker.push([a_push("b"), a_join("k", "b")])
    store.broker.push([a_push("late", after=["bad"], into="k")])
    assert (state(store, "late"), last(store, "k").data["cause"]) == (State.CANCELLED, "bad")


@pytest.mark.parametrize("is_settled_together", [True, False])
def test_a_join_that_a_member_has_cancelled_waits_for_what_is_pushed_into_it(
    store: Store, is_settled_together: bool
) -> None:
    store.broker.push([a_push("bad"), a_push("a"), a_join("j", "bad", "a"), a_push("after", after=["j"])])
    bad, a = take(store, "bad", "a")
    endings = [dead(bad), done(a, then=[a_push("s1", into="j"), a_push("s2", after=["s1"], into="j")])]
    for batch in [endings] if is_settled_together else [[each] for each in endings]:
        assert store.broker.settle(batch, worker=WORKER) == []
    held_back = record(store, "j")
    assert (held_back.state, spawned(held_back.meta)) == (State.CANCELLED, ["s1", "s2"])
    assert counts(store) == (1, 0, 0, 1, 1)
    succeed(store, "s1")
    store.deadletters.replay(DeadFilter())
    bad, s2 = take(store, "bad", "s2")
    store.broker.settle([done(bad)], worker=WORKER)
    assert states(store, "j", "after") == ["cancelled", "cancelled"]
    store.broker.settle([done(s2)], worker=WORKER)
    assert (record(store, "j").error, kinds_of(store, "j")[-1]) == (None, EventKind.JOINED)
    succeed(store, "after")
    assert counts(store) == (0, 0, 0, 0, 0)


def test_what_is_pushed_into_a_join_that_was_cancelled_and_fails_is_mended_as_well(store: Store) -> None:
    store.broker.push([a_push("bad"), a_push("a"), a_join("j", "bad", "a"), a_push("after", after=["j"])])
    bad, a = take(store, "bad", "a")
    store.broker.settle([dead(bad)], worker=WORKER)
    store.broker.settle([done(a, then=[a_push("s", into="j"), a_push("t", after=["bad"], into="j")])], worker=WORKER)
    assert (state(store, "t"), error_of(store, "t").message.split()[0]) == (State.CANCELLED, "bad")
    fail(store, "s")
    assert error_of(store, "j").message.split()[0] == "bad"
    store.deadletters.replay(DeadFilter(ids=("bad",)))
    succeed(store, "bad")
    succeed(store, "t")
    assert states(store, "j", "after") == ["cancelled", "cancelled"]
    store.deadletters.replay(DeadFilter())
    succeed(store, "s")
    assert states(store, "j", "after") == ["succeeded", "queued"]
    succeed(store, "after")


@pytest.mark.parametrize("what", ["unknown", "ended", "cancelled", "no join", "a blocked task"])
def test_only_a_join_that_can_still_end_well_can_be_pushed_into(store: Store, what: str) -> None:
    store.broker.push([a_push("a", queue="other"), a_push("plain"), a_push("blocked", after=["a"]), a_join("j", "a")])
    if what == "ended":
        succeed(store, "a", queue="other")
    elif what == "cancelled":
        store.broker.cancel(["j"])
    into = {"unknown": "ghost", "no join": "plain", "a blocked task": "blocked"}.get(what, "j")
    before = all_events(store)
    with pytest.raises(StoreRefused, match=into):
        store.broker.push([a_push("x"), a_push("s", into=into)])
    assert store.results.get(["x", "s"]) == {}
    assert all_events(store) == before
    assert spawned(record(store, "j").meta) == []


def test_a_known_id_is_not_pushed_into_anything(store: Store) -> None:
    store.broker.push([a_push("a"), a_push("s"), a_join("j", "a")])
    assert not store.broker.push([a_push("s", into="j")])[0].created
    assert not store.broker.push([a_push("s", into="ghost")])[0].created
    assert spawned(record(store, "j").meta) == []
    store.broker.settle([done(take(store, "a", "s")[0])], worker=WORKER)
    assert state(store, "j") is State.SUCCEEDED


def test_a_push_into_a_join_and_its_end_never_miss_each_other(store: Store, open_store: OpenStore) -> None:
    other = open_store()

    def push(into: str, id: str) -> bool:
        try:
            return other.broker.push([a_push(id, into=into)])[0].created
        except StoreRefused:
            return False

    for round in range(30):
        store.broker.push([a_push(f"a{round}"), a_join(f"j{round}", f"a{round}")])
        (held,) = take(store, f"a{round}")
        works: list[Callable[[], object]] = [
            partial(store.broker.settle, [done(held)], worker=WORKER),
            partial(push, f"j{round}", f"s{round}"),
        ]
        was_pushed = together(works)[1]
        assert state(store, f"j{round}") is (State.QUEUED if was_pushed else State.SUCCEEDED)
        succeed(store, *([f"s{round}"] if was_pushed else []))
        assert state(store, f"j{round}") is State.SUCCEEDED


def test_a_task_can_block_on_what_it_pushes_and_ends_when_that_has_ended(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a", unique="k"))
    store.broker.push([a_push("after", after=["a"])])
    then = [a_push("c1"), a_push("c2", after=["c1"])]
    assert store.broker.settle([block(delivery, "c1", "c2", then=then, meta={"n": 1})], worker=WORKER) == []
    waiting = record(store, "a")
    assert (waiting.state, waiting.worker, waiting.started_at, waiting.meta) == (State.QUEUED, None, None, {"n": 1})
    assert counts(store) == (1, 0, 0, 0, 3)
    assert store.broker.push([a_push("b", unique="k")])[0].id == "a"
    assert store.broker.settle([done(delivery)], worker=WORKER) == [delivery.lease]
    blocked = last(store, "a")
    assert (blocked.kind, blocked.data, blocked.worker) == (EventKind.BLOCKED, {"missing": 2}, WORKER)
    assert blocked.started_at is not None
    succeed(store, "c1")
    assert is_blocked(store, "a")
    succeed(store, "c2")
    ended = record(store, "a")
    assert (ended.state, ended.error, ended.attempt) == (State.SUCCEEDED, None, 0)
    assert ended.payload is not None and bytes(ended.payload) == b"null"
    assert kinds_of(store, "a") == [EventKind.ENQUEUED, EventKind.STARTED, EventKind.BLOCKED, EventKind.JOINED]
    assert walk(events_of(store, "a")) is State.SUCCEEDED
    assert store.broker.push([a_push("b", unique="k")])[0].created
    assert ids(claim(store)) == ["after", "b"]


@pytest.mark.parametrize("after", [[], ["c"], ["c", "c"]])
def test_a_task_that_blocks_on_what_has_ended_ends_at_once(store: Store, after: list[str]) -> None:
    store.broker.push(pushes("c"))
    succeed(store, "c")
    store.broker.settle([block(push_and_claim(store, a_push("a")), *after)], worker=WORKER)
    assert (state(store, "a"), counts(store)) == (State.SUCCEEDED, (0, 0, 0, 0, 0))
    assert walk(events_of(store, "a")) is State.SUCCEEDED
    assert kinds_of(store, "a")[-2:] == [EventKind.BLOCKED, EventKind.JOINED]


def test_a_task_that_blocks_on_one_that_fails_is_cancelled_and_ends_after_its_replay(store: Store) -> None:
    store.broker.push(pushes("c"))
    (c,) = take(store, "c")
    delivery = push_and_claim(store, a_push("a"))
    store.broker.settle([retry(delivery)], worker=WORKER)
    store.broker.settle([block(claim_one(store), "c")], worker=WORKER)
    assert (state(store, "a"), record(store, "a").attempt) == (State.RETRIED, 1)
    store.broker.settle([dead(c)], worker=WORKER)
    assert (state(store, "a"), last(store, "a").data["cause"]) == (State.CANCELLED, "c")
    assert store.broker.find("a") is not None
    store.deadletters.replay(DeadFilter())
    succeed(store, "c")
    assert (state(store, "a"), record(store, "a").error) == (State.SUCCEEDED, None)
    assert walk(events_of(store, "a")) is State.SUCCEEDED


def test_a_task_that_blocks_on_one_that_has_failed_is_cancelled_at_once(store: Store) -> None:
    store.broker.push(pushes("c"))
    fail(store, "c")
    store.broker.settle([block(push_and_claim(store, a_push("a")), "c")], worker=WORKER)
    assert error_of(store, "a").type == "PrerequisiteFailed"
    assert walk(events_of(store, "a")) is State.CANCELLED
    assert counts(store) == (0, 0, 0, 1, 0)


@pytest.mark.parametrize("after", ["ghost", "a"])
def test_a_task_cannot_block_on_an_unknown_task_or_on_itself(store: Store, after: str) -> None:
    store.broker.push(pushes("a", "b"))
    a, b = take(store, "a", "b")
    with pytest.raises(StoreRefused, match=after):
        store.broker.settle([done(b), block(a, "b", after, then=pushes("c"))], worker=WORKER)
    assert (states(store, "a", "b"), store.results.get(["c"])) == (["queued", "queued"], {})
    assert counts(store) == (0, 0, 2, 0, 0)
    assert store.broker.settle([done(a), done(b)], worker=WORKER) == []


def test_a_late_block_changes_nothing(store: Store) -> None:
    late = push_and_claim(store, a_push("a"), lease=0.02)
    expire(store, late)
    assert store.broker.settle([block(late, "c", then=pushes("c"))], worker=WORKER) == [late.lease]
    assert store.results.get(["c"]) == {}
    succeed(store, "a")


def test_a_blocked_task_holds_no_lease(store: Store) -> None:
    delivery: Delivery = push_and_claim(store, a_push("a"), lease=0.01)
    store.broker.settle([block(delivery, "c", then=pushes("c"))], worker=WORKER)
    assert store.broker.renew([delivery.lease], lease_seconds=60) == [delivery.lease]
    assert store.broker.cancel(["a"]) == ["a"]
    assert error_of(store, "a") == TaskError("Cancelled", "revoked")
    succeed(store, "c")
    assert state(store, "a") is State.CANCELLED


def staged(store: Store, *ids: str) -> list[Part]:
    store.staging.stage("job", "part", calls_of(pushes(*ids)))
    return [Part("part", len(ids))]


def test_a_promotion_pushes_what_waits_for_the_staged(store: Store) -> None:
    members = [f"m{n:04d}" for n in range(1500)]
    last_pushes = [a_join("j", *members), a_push("after", after=["j"])]
    assert store.staging.promote("job", staged(store, *members), pushes=last_pushes) == Promotion(1500, 0)
    assert counts(store) == (1500, 0, 0, 0, 2)
    assert store.staging.promote("job", [], pushes=pushes("never")) == Promotion(1500, 0)
    assert store.results.get(["never"]) == {}
    while "after" not in ids(held := claim(store, limit=500)):
        store.broker.settle([done(each) for each in held], worker=WORKER)
    assert (ids(held), state(store, "j")) == (["after"], State.SUCCEEDED)


def test_staged_tasks_that_were_known_and_have_ended_count_at_once(store: Store) -> None:
    store.broker.push(pushes("a"))
    succeed(store, "a")
    promoted = store.staging.promote("job", staged(store, "a", "b"), pushes=[a_join("j", "a", "b")])
    assert promoted == Promotion(1, 1)
    assert told(store, "j")[1] == ("blocked", {"missing": 1})
    succeed(store, "b")
    assert state(store, "j") is State.SUCCEEDED


def test_a_promotion_with_an_unknown_prerequisite_promotes_nothing(store: Store) -> None:
    parts = staged(store, "a")
    with pytest.raises(StoreRefused, match="ghost"):
        store.staging.promote("job", parts, pushes=[a_join("j", "a", "ghost")])
    assert (claim(store), store.results.get(["a", "j"]), store.staging.promoted("job")) == ([], {}, None)
    assert store.staging.promote("job", parts, pushes=[a_join("j", "a")]) == Promotion(1, 0)
    succeed(store, "a")
    assert state(store, "j") is State.SUCCEEDED


@pytest.mark.parametrize("push", [a_push(after=["a"]), a_join(), a_push(into="j")])
def test_a_task_with_prerequisites_cannot_be_staged(push: Push) -> None:
    with pytest.raises(UsageError, match="with the promotion"):
        calls_of([push])


def test_the_value_of_a_join_is_the_json_that_was_sent(store: Store) -> None:
    args = msgspec.Raw(b'{"b": 1.0,"a":[ ],"c":"\\u00fc"}')
    push = a_join("j")
    store.broker.push([msgspec.structs.replace(push, envelope=msgspec.structs.replace(push.envelope, args=args))])
    assert record(store, "j").result() == {"b": 1.0, "a": [], "c": "ü"}
