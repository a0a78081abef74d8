"""A push that supersedes takes the unique key from its holder and cancels it, if it waits or may be stopped."""

from collections.abc import Sequence
from functools import partial

import pytest

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, Report
from stem.core.envelope import Push, Receipt, Supersedes, Unique
from stem.core.lifecycle import EventKind, State
from stem.core.record import TaskError
from support.background import in_thread, is_waiting, together
from support.builders import a_push, done, pushes, requeue, retry
from support.stores.calls import (
    WORKER,
    claim,
    claim_one,
    dead_ids,
    expire,
    ids,
    kinds_of,
    let_time_pass,
    push_and_claim,
    record,
    state,
)
from support.stores.graphs import counts, error_of, is_blocked, last, states, succeed, told
from support.until import until

WAITING, RUNNING = Supersedes.WAITING, Supersedes.RUNNING
HOUR = 3600.0


def instead(
    id: str,
    *,
    of: Supersedes = WAITING,
    key: str = "k",
    seconds: float | None = None,
    at_most: float | None = None,
    delay: float | None = None,
    after: Sequence[str] = (),
    queue: str = "default",
) -> Push:
    """A push that takes the key; `at_most` bounds how long a series can put off its start."""
    unique = Unique(key, seconds, of, at_most)
    return a_push(id, unique=unique, delay=delay, after=after, queue=queue)


def test_the_first_of_a_series_supersedes_nothing(store: Store) -> None:
    assert store.broker.push([instead("a")]) == [Receipt("a", created=True)]
    assert ids(claim(store)) == ["a"]


@pytest.mark.parametrize("delay", [None, HOUR])
@pytest.mark.parametrize("of", [WAITING, RUNNING])
def test_a_holder_that_waits_is_cancelled_and_the_receipt_names_it(
    store: Store, of: Supersedes, delay: float | None
) -> None:
    store.broker.push([instead("a", delay=delay)])
    assert store.broker.push([instead("b", of=of)]) == [Receipt("b", created=True, superseded="a")]
    ended = record(store, "a")
    assert (ended.state, ended.error) == (State.CANCELLED, TaskError("Cancelled", "superseded"))
    assert ended.finished_at is not None
    assert told(store, "a") == [("enqueued", {}), ("revoked", {"reason": "superseded"})]
    assert counts(store) == (1, 0, 0, 0, 0)
    assert ids(claim(store)) == ["b"]


def test_a_plain_holder_is_superseded_as_well_and_a_plain_push_supersedes_nobody(store: Store) -> None:
    store.broker.push([a_push("a", unique="k")])
    assert store.broker.push([instead("b")])[0].superseded == "a"
    assert store.broker.push([a_push("c", unique="k")]) == [Receipt("b", created=False)]
    assert store.results.get(["c"]) == {}


def test_a_retried_holder_is_superseded(store: Store) -> None:
    store.broker.settle([retry(push_and_claim(store, instead("a")), HOUR)], worker=WORKER)
    assert store.broker.push([instead("b")])[0].superseded == "a"
    assert counts(store) == (1, 0, 0, 0, 0)


@pytest.mark.parametrize("is_started", [False, True])
def test_a_holder_that_runs_goes_on_unless_that_is_asked_for(store: Store, is_started: bool) -> None:
    a = push_and_claim(store, instead("a"))
    if is_started:
        store.broker.start([a.lease], worker=WORKER)
    assert store.broker.push([instead("b")]) == [Receipt("b", created=True)]
    assert counts(store) == (1, 0, 1, 0, 0)
    assert store.broker.push([instead("c")])[0].superseded == "b", "the key is the newest one's"
    assert store.broker.settle([done(a, 1)], worker=WORKER) == []
    assert store.broker.push([a_push("d", unique="k")])[0].id == "c", "which the end of a former holder does not free"
    assert states(store, "a", "b", "c") == ["succeeded", "cancelled", "queued"]


@pytest.mark.parametrize("is_started", [False, True])
def test_a_holder_that_runs_is_stopped_if_that_is_asked_for(store: Store, is_started: bool) -> None:
    a = push_and_claim(store, instead("a"))
    if is_started:
        store.broker.start([a.lease], worker=WORKER)
    assert store.broker.push([instead("b", of=RUNNING)]) == [Receipt("b", created=True, superseded="a")]
    assert (state(store, "a"), error_of(store, "a")) == (State.CANCELLED, TaskError("Cancelled", "superseded"))
    assert last(store, "a").data == {"reason": "superseded"}
    assert counts(store) == (1, 0, 0, 0, 0)


def test_the_lease_of_the_superseded_is_refused_from_there_on(store: Store) -> None:
    a = push_and_claim(store, instead("a"), lease=0.01)
    store.broker.start([a.lease], worker=WORKER)
    store.broker.push([instead("b", of=RUNNING)])
    assert store.broker.renew([a.lease], lease_seconds=60) == [a.lease]
    assert store.broker.report([Report(a.lease, {"percent": 1})], worker=WORKER) == [a.lease]
    assert store.broker.start([a.lease], worker=WORKER) == [a.lease]
    assert store.broker.settle([done(a, then=pushes("never"))], worker=WORKER) == [a.lease]
    let_time_pass(store, 0.02)
    reclaimed = store.broker.reclaim(max_deaths=1)
    assert (reclaimed.returned, reclaimed.dead) == ([], [])
    assert store.results.get(["never"]) == {}
    assert kinds_of(store, "a") == [EventKind.ENQUEUED, EventKind.STARTED, EventKind.REVOKED]
    assert ids(claim(store)) == ["b"]


def test_a_holder_that_has_ended_is_not_superseded(store: Store) -> None:
    succeeded = push_and_claim(store, instead("a", seconds=HOUR))
    store.broker.settle([done(succeeded, 1)], worker=WORKER)
    assert store.broker.push([a_push("b", unique="k")])[0].id == "a"
    assert store.broker.push([instead("c", seconds=HOUR)]) == [Receipt("c", created=True)]
    assert store.broker.push([a_push("d", unique="k")])[0].id == "c"
    assert (record(store, "a").result(), dead_ids(store)) == (1, [])


def test_a_key_held_for_some_time_is_superseded_within_it(store: Store) -> None:
    store.broker.push([instead("a", seconds=HOUR)])
    assert store.broker.push([instead("b", seconds=HOUR)])[0].superseded == "a"
    store.broker.settle([done(claim_one(store))], worker=WORKER)
    assert store.broker.push([a_push("c", unique="k")])[0].id == "b"


def test_a_known_id_supersedes_nobody(store: Store) -> None:
    store.broker.push([instead("a"), a_push("b")])
    assert store.broker.push([instead("a"), instead("b", of=RUNNING)]) == [
        Receipt("a", created=False),
        Receipt("b", created=False),
    ]
    assert ids(claim(store)) == ["a", "b"]


def test_of_one_batch_the_last_stays(store: Store) -> None:
    receipts = store.broker.push([instead("a"), instead("b"), instead("other", key="k2"), instead("c")])
    assert [each.superseded for each in receipts] == [None, "a", None, "b"]
    assert all(each.created for each in receipts)
    assert kinds_of(store, "b") == [EventKind.ENQUEUED, EventKind.REVOKED]
    assert ids(claim(store)) == ["other", "c"]


def test_a_follow_up_can_supersede(store: Store) -> None:
    store.broker.push([a_push("x"), instead("a", delay=HOUR)])
    store.broker.settle([done(claim_one(store), then=[instead("b")])], worker=WORKER)
    assert state(store, "a") is State.CANCELLED
    assert ids(claim(store)) == ["b"]


def test_the_key_is_free_when_the_last_of_the_series_ends(store: Store) -> None:
    store.broker.push([instead("a")])
    store.broker.push([instead("b")])
    store.broker.settle([done(claim_one(store))], worker=WORKER)
    assert store.broker.push([a_push("c", unique="k")])[0].created
    store.broker.cancel(["c"])
    assert store.broker.push([instead("d")])[0].superseded is None


def test_a_blocked_holder_is_superseded_for_good(store: Store) -> None:
    store.broker.push([a_push("p"), instead("a", after=["p"]), a_push("after-a", after=["a"])])
    assert store.broker.push([instead("b", after=["p"])])[0].superseded == "a"
    assert last(store, "after-a").data == {"reason": "prerequisite-failed", "cause": "a"}
    assert counts(store) == (1, 0, 0, 0, 1)
    succeed(store, "p")
    assert ids(claim(store)) == ["b"]
    assert states(store, "a", "after-a") == ["cancelled", "cancelled"]


def test_dependents_of_a_superseded_task_see_it_as_a_failure(store: Store) -> None:
    store.broker.push([instead("a"), a_push("run", after=["a"], on_failure="run"), a_push("stop", after=["a"])])
    store.broker.push([instead("b", queue="other")])
    assert error_of(store, "stop").message == "a (demo.add) was cancelled: Cancelled: superseded"
    assert ids(claim(store)) == ["run"]


def test_one_that_supersedes_can_be_waited_for_in_its_batch(store: Store) -> None:
    store.broker.push([instead("a")])
    store.broker.push([instead("b"), a_push("c", after=["b"])])
    assert is_blocked(store, "c")
    succeed(store, "b")
    succeed(store, "c")


def test_a_series_is_put_off_no_longer_than_it_may(store: Store) -> None:
    began = store.upkeep.now()
    names = [f"s{n}" for n in range(6)]
    for id in names:
        store.broker.push([instead(id, delay=HOUR, at_most=0.5)])
        let_time_pass(store, 0.02)
    until(lambda: ids(claim(store)) == ["s5"])
    assert store.upkeep.now() >= began + 0.5
    assert states(store, *names[:-1]) == ["cancelled"] * 5
    first, fifth = record(store, "s0").enqueued_at, record(store, "s5").enqueued_at
    assert (fifth - first).total_seconds() > 0.09


def due_in(store: Store, id: str) -> float:
    found = store.broker.find(id)
    assert found is not None
    return found.due_at.timestamp() - store.upkeep.now()


def test_the_bound_counts_from_the_first_push_of_the_series(store: Store) -> None:
    store.broker.push([instead("a", delay=HOUR)])
    first = record(store, "a").enqueued_at.timestamp()
    let_time_pass(store, 0.2)
    store.broker.push([instead("b", delay=HOUR, at_most=600)])
    let_time_pass(store, 0.2)
    store.broker.push([instead("c", delay=HOUR, at_most=600)])
    assert abs(due_in(store, "c") + store.upkeep.now() - first - 600) < 0.1
    store.broker.push([instead("d", delay=HOUR, at_most=0.3)])
    assert ids(claim(store)) == ["d"], "the bound had passed"


def test_a_push_that_is_due_before_the_bound_keeps_its_delay(store: Store) -> None:
    store.broker.push([instead("a", delay=100, at_most=600)])
    assert 90 < due_in(store, "a") <= 100
    store.broker.push([instead("b", at_most=600)])
    assert ids(claim(store)) == ["b"]


@pytest.mark.parametrize("how", ["running", "ended", "waiting again"])
def test_the_series_ends_when_one_of_it_is_claimed(store: Store, how: str) -> None:
    store.broker.push([instead("a", delay=0.01, at_most=600)])
    let_time_pass(store, 0.3)
    a = claim_one(store)
    if how == "ended":
        store.broker.settle([done(a)], worker=WORKER)
    elif how == "waiting again":
        store.broker.settle([requeue(a, HOUR)], worker=WORKER)
    (receipt,) = store.broker.push([instead("b", delay=HOUR, at_most=600)])
    assert receipt.superseded == ("a" if how == "waiting again" else None)
    second = record(store, "b").enqueued_at.timestamp()
    assert abs(due_in(store, "b") + store.upkeep.now() - second - 600) < 0.1


def test_a_superseded_task_cannot_be_replayed_or_taken_back(store: Store) -> None:
    a = push_and_claim(store, instead("a"), lease=0.02)
    expire(store, a)
    store.broker.push([instead("b")])
    assert store.deadletters.replay(DeadFilter()) == []
    assert store.broker.settle([done(a)], worker=WORKER) == [a.lease]
    assert state(store, "a") is State.CANCELLED


def test_a_caller_waiting_for_the_result_of_a_superseded_task_is_woken(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    store.broker.push([instead("a", delay=HOUR)])
    waiter = in_thread(lambda: other.results.wait(["a"], timeout_seconds=30))
    assert is_waiting(waiter)
    store.broker.push([instead("b")])
    assert waiter.result(10)["a"].state is State.CANCELLED


def test_many_who_supersede_at_once_leave_one_task(store: Store, open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(4)]
    answers = together([partial(each.broker.push, [instead(f"t{n}")]) for n, each in enumerate(stores)])
    superseded = [receipt.superseded for (receipt,) in answers]
    assert all(receipt.created for (receipt,) in answers)
    assert superseded.count(None) == 1 and len(set(superseded)) == 4
    (left,) = ids(claim(store))
    assert left not in superseded


def test_superseding_is_for_one_namespace(open_store: OpenStore, namespace: str) -> None:
    here, there = open_store(), open_store(f"{namespace}-2")
    here.broker.push([instead("a")])
    assert there.broker.push([instead("b", of=RUNNING)])[0].superseded is None
    assert ids(claim(here)) == ["a"]
