"""What one failure cancels may be more than one call can write: the rest follows, and nothing else waits for it."""

import pytest

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter
from stem.core.lifecycle import EventKind, State
from stem.core.prerequisites import CASCADE_LIMIT
from stem.core.record import TaskFilter
from support.builders import a_join, a_push, dead, done, pushes
from support.stores.calls import WORKER, all_events, claim, claim_one, depth, ids, state
from support.stores.graphs import counts, error_of, fail, states, succeed, take

MANY = 12_000
pytestmark = pytest.mark.timeout(240)


def push_many(store: Store, *after: str, prefix: str = "d", many: int = MANY) -> None:
    for start in range(0, many, 3000):
        store.broker.push([a_push(f"{prefix}{n}", after=after) for n in range(start, min(many, start + 3000))])


def revoked(store: Store) -> int:
    return sum(event.kind is EventKind.REVOKED for event in all_events(store, step=5000))


def test_a_cascade_too_large_for_one_call_is_finished_by_reclaim(store: Store) -> None:
    store.broker.push(pushes("a"))
    push_many(store, "a")
    fail(store, "a")
    left = depth(store).blocked
    assert counts(store) == (0, 0, 0, 1, left)
    assert MANY - left >= CASCADE_LIMIT, "a call cancels at least so many"
    calls = 0
    while depth(store).blocked:
        found = store.broker.reclaim(grace_seconds=60)
        assert (found.returned, found.dead) == ([], []), "what is cancelled is not in the answer"
        calls += 1
        assert calls <= 4
    assert counts(store) == (0, 0, 0, 1, 0)
    assert revoked(store) == MANY
    assert error_of(store, f"d{MANY - 1}").message == "a (demo.add) failed: ValueError: boom"
    assert store.broker.reclaim().returned == []
    store.deadletters.replay(DeadFilter())
    succeed(store, "a")
    assert counts(store) == (MANY, 0, 0, 0, 0)


def test_a_long_chain_is_cancelled_to_its_end(store: Store) -> None:
    many = CASCADE_LIMIT + 1000
    chain = [a_push(f"c{n}", after=[f"c{n - 1}"] if n else []) for n in range(many)]
    for start in range(0, many, 2000):
        store.broker.push(chain[start : start + 2000])
    fail(store, "c0")
    for _ in range(3):
        store.broker.reclaim()
    assert counts(store) == (0, 0, 0, 1, 0)
    assert error_of(store, f"c{many - 1}").message == "c0 (demo.add) failed: ValueError: boom"
    assert revoked(store) == many - 1


def test_a_long_cascade_holds_up_nobody_else(store: Store) -> None:
    """Releases are written with the end that makes them, however much else there is to be cancelled."""
    store.broker.push(pushes("a", "b"))
    push_many(store, "a")
    store.broker.push([a_push("run", after=["a"], on_failure="run"), a_push("after-b", after=["b"]), a_join("j", "b")])
    a, b = take(store, "a", "b")
    store.broker.settle([dead(a)], worker=WORKER)
    assert state(store, "run") is State.QUEUED and ids(claim(store)) == ["run"]
    store.broker.settle([done(b)], worker=WORKER)
    assert (ids(claim(store)), state(store, "j")) == (["after-b"], State.SUCCEEDED)
    store.broker.push([a_push("late", after=["a"]), a_push("x"), a_push("y", after=["x"])])
    assert state(store, "late") is State.CANCELLED
    fail(store, "x")
    assert state(store, "y") is State.CANCELLED


def test_a_replay_in_the_midst_of_a_cascade_loses_nobody(store: Store) -> None:
    store.broker.push(pushes("a"))
    push_many(store, "a")
    fail(store, "a")
    store.deadletters.replay(DeadFilter())
    (a,) = take(store, "a")
    store.broker.reclaim()
    store.broker.settle([done(a)], worker=WORKER)
    for _ in range(3):
        store.broker.reclaim()
    assert counts(store) == (MANY, 0, 0, 0, 0)
    queued = store.results.page(TaskFilter(state=State.QUEUED), limit=MANY + 1).items
    assert len(queued) == MANY and all(each.error is None for each in queued)


def test_the_rest_of_a_cascade_is_cancelled_once_by_whichever_worker_reclaims(
    store: Store, open_store: OpenStore
) -> None:
    other = open_store()
    store.broker.push(pushes("a"))
    push_many(store, "a")
    store.broker.settle([dead(claim_one(store))], worker=WORKER)
    for _ in range(3):
        other.broker.reclaim()
        store.broker.reclaim()
    assert counts(store) == (0, 0, 0, 1, 0)
    assert revoked(store) == MANY


def test_a_purge_of_very_many_reaches_what_waits_for_them(store: Store) -> None:
    members = [f"m{n}" for n in range(CASCADE_LIMIT + 1000)]
    store.broker.push([*pushes(*members, queue="members"), a_join("j", *members), a_push("after", after=["j"])])
    assert store.broker.purge("members") == len(members)
    for _ in range(3):
        store.broker.reclaim()
    assert states(store, "j", "after") == ["cancelled", "cancelled"]
    assert store.broker.depth() == {}
