"""A worker with a backlog claims from its queues alone, and from its own queue about once a second."""

from itertools import count

import pytest

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.settings.app import Settings
from stem.worker.services import claim_order
from stem.worker.services.claim_order import FairShareOrder, PriorityOrder
from support.builders import a_push

_numbers = count(1)


@pytest.fixture
def store() -> Store:
    return connect(f"memory://order{next(_numbers)}", Settings())


def push(store: Store, queue: str, *ids: str) -> None:
    store.broker.push([a_push(id, queue=queue) for id in ids])


def ids(order: PriorityOrder | FairShareOrder, limit: int = 1) -> list[str]:
    return [delivery.lease.id for delivery in order.claim(limit, 30.0)]


def test_without_a_backlog_both_are_claimed_from_at_once(store: Store) -> None:
    order = PriorityOrder(store.broker, ["default"], "worker.w1", set())
    push(store, "default", "a")
    push(store, "worker.w1", "b")
    assert ids(order, 10) == ["a", "b"]


def test_with_a_backlog_what_is_in_the_own_queue_goes_first_now_and_then(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = PriorityOrder(store.broker, ["default"], "worker.w1", set())
    push(store, "default", "a", "b", "c", "d")
    push(store, "worker.w1", "own1")
    assert ids(order) == ["a"]
    assert ids(order) == ["own1"]
    push(store, "worker.w1", "own2")
    assert ids(order) == ["b"], "it was looked at a moment ago"
    monkeypatch.setattr(claim_order, "OWN_SECONDS", 0.0)
    assert ids(order) == ["own2"]
    assert [ids(order), ids(order), ids(order)] == [["c"], ["d"], []]


def test_a_paused_queue_is_left_out_and_the_own_one_is_not(store: Store) -> None:
    paused = {"default"}
    order = PriorityOrder(store.broker, ["default"], "worker.w1", paused)
    push(store, "default", "a")
    push(store, "worker.w1", "b", "c")
    assert [ids(order), ids(order)] == [["b"], ["c"]]
    paused.clear()
    assert ids(order, 5) == ["a"]
    paused |= {"default", "worker.w1"}
    assert ids(order, 5) == []


def test_fair_share_serves_the_own_queue_in_turn(store: Store) -> None:
    order = FairShareOrder(store.broker, ["default"], "worker.w1", set())
    push(store, "default", "a", "b", "c")
    push(store, "worker.w1", "own")
    assert sorted([*ids(order), *ids(order)])[-1] == "own"
