"""What waits can be cancelled by id, at once; whatever else is named is left alone."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.delivery import Ending
from stem.core.lifecycle import EventKind, State
from support.background import together
from support.builders import a_push, done, pushes, requeue, retry
from support.stores.calls import WORKER, claim, depth, events_of, fail_for_good, kinds_of, push_and_claim, record, state


@pytest.mark.parametrize("options", [{}, {"delay": 3600.0}, {"priority": 9}], ids=["ready", "delayed", "preferred"])
def test_a_task_that_waits_is_cancelled_at_once_and_its_key_is_free(store: Store, options: dict[str, Any]) -> None:
    store.broker.push([a_push("a", unique="k", **options), a_push("b")])
    assert store.broker.cancel(["a", "a", "nobody"], reason="wrong customer") == ["a"]
    ended = record(store, "a")
    assert (ended.state, ended.attempt) == (State.CANCELLED, 0)
    assert ended.finished_at is not None
    assert ended.error is not None and (ended.error.type, ended.error.message) == ("Cancelled", "wrong customer")
    assert kinds_of(store, "a") == [EventKind.ENQUEUED, EventKind.REVOKED]
    assert events_of(store, "a")[-1].data == {"reason": "wrong customer"}
    assert store.broker.push([a_push("c", unique="k")])[0].created
    assert [each.lease.id for each in claim(store)] == ["b", "c"]
    assert depth(store).delayed == 0
    assert store.broker.cancel(["a"]) == []


@pytest.mark.parametrize("again", [partial(retry, delay=60.0), requeue], ids=["to be retried", "requeued"])
def test_a_task_that_waits_again_is_cancelled(store: Store, again: partial[Ending]) -> None:
    delivery = push_and_claim(store, a_push("a"))
    store.broker.settle([again(delivery)], worker=WORKER)
    assert store.broker.cancel(["a"]) == ["a"]
    assert state(store, "a") is State.CANCELLED
    assert claim(store) == []


def test_leased_ended_and_dead_tasks_are_left_alone(store: Store) -> None:
    leased = push_and_claim(store, a_push("leased"))
    ended = push_and_claim(store, a_push("ended"))
    store.broker.settle([done(ended)], worker=WORKER)
    fail_for_good(store, "dead")
    assert store.broker.cancel(["leased", "ended", "dead"]) == []
    assert store.broker.settle([done(leased)], worker=WORKER) == []
    assert [state(store, id) for id in ("leased", "ended", "dead")] == [
        State.SUCCEEDED,
        State.SUCCEEDED,
        State.FAILED,
    ]


def test_a_task_is_claimed_or_cancelled_and_never_both(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    ids = [f"t{n}" for n in range(200)]
    store.broker.push(pushes(*ids))
    works: list[Callable[[], Any]] = [partial(claim, other, limit=200), partial(store.broker.cancel, ids)]
    claimed, cancelled = together(works)
    assert sorted([*(each.lease.id for each in claimed), *cancelled]) == sorted(ids)
    assert other.broker.settle([done(each) for each in claimed], worker=WORKER) == []


def test_whoever_waits_for_it_is_told(store: Store, open_store: OpenStore) -> None:
    store.broker.push([a_push("a", delay=3600.0)])
    wait = partial(open_store().results.wait, ["a"], timeout_seconds=20)
    works: list[Callable[[], Any]] = [wait, partial(store.broker.cancel, ["a"])]
    ended, _ = together(works)
    assert ended["a"].state is State.CANCELLED
