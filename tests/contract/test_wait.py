"""Claims wake up, they do not poll: what `wait` promises."""

import time
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter
from stem.core.errors import StemError
from support.asking import WORKER, bury, claim, expire, ids, push_and_claim
from support.beside import Errand, barrier, in_thread, is_waiting, timed
from support.builders import a_push, pushes, requeue, retry
from support.errands import push_when_told

SOON = 0.5  # generous for a loaded machine; awake it is milliseconds


def test_it_returns_at_once_when_something_is_due(store: Store) -> None:
    store.broker.push(pushes("a"))
    began = time.monotonic()
    assert store.broker.wait(["default"], timeout_seconds=20)
    assert time.monotonic() - began < SOON


def test_it_ends_on_time_when_nothing_comes(store: Store) -> None:
    store.broker.push(pushes("elsewhere", queue="other"))
    began = time.monotonic()
    assert not store.broker.wait(["default"], timeout_seconds=0.3)
    assert 0.29 <= time.monotonic() - began < 0.3 + SOON


def test_it_does_not_block_without_time(store: Store) -> None:
    began = time.monotonic()
    assert not store.broker.wait(["default"], timeout_seconds=0)
    assert time.monotonic() - began < SOON


def test_a_wait_shorter_than_a_round_trip_is_a_short_wait_and_no_failure(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    subscription = store.mail.subscribe("news")
    crowd = [a_push(queue="other") for _ in range(3000)]
    busy = in_thread(lambda: other.broker.push(crowd))  # keeps the store from answering within a millisecond
    for _ in range(20):
        assert not store.broker.wait(["default"], timeout_seconds=0.001)
        assert store.results.wait(["nobody"], timeout_seconds=0.001) == {}
        assert store.mail.receive("box", timeout_seconds=0.001) == []
        assert subscription.receive(timeout_seconds=0.001) == []
        assert store.events.wait(store.events.head(), timeout_seconds=0.001) in (True, False)
    assert len(busy.result(20)) == 3000
    subscription.close()


def test_a_push_wakes_it(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    waiter = in_thread(lambda: timed(lambda: store.broker.wait(["x", "default"], timeout_seconds=20)))
    assert is_waiting(waiter)
    sent = time.monotonic()
    other.broker.push(pushes("a"))
    found, at = waiter.result(20)
    assert found and at - sent < SOON


def test_a_push_wakes_it_again_and_again(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    for n in range(5):
        waiter = in_thread(lambda: timed(lambda: store.broker.wait(["default"], timeout_seconds=20)))
        assert is_waiting(waiter, seconds=0.03)
        sent = time.monotonic()
        other.broker.push(pushes(f"a{n}"))
        found, at = waiter.result(20)
        assert found and at - sent < SOON
        assert ids(claim(store)) == [f"a{n}"]


def test_every_waiter_on_the_queue_wakes(store: Store, open_store: OpenStore) -> None:
    waiters = [
        in_thread(partial(timed, partial(each.broker.wait, ["default"], timeout_seconds=20)))
        for each in (store, store, open_store())
    ]
    assert all(is_waiting(waiter, seconds=0.1) for waiter in waiters)
    sent = time.monotonic()
    store.broker.push(pushes("a", "b", "c"))
    for waiter in waiters:
        found, at = waiter.result(20)
        assert found and at - sent < SOON


def test_a_requeue_wakes_it(store: Store, open_store: OpenStore) -> None:
    delivery = push_and_claim(store)
    waiter = in_thread(lambda: timed(lambda: store.broker.wait(["default"], timeout_seconds=20)))
    assert is_waiting(waiter)
    sent = time.monotonic()
    open_store().broker.settle([requeue(delivery)], worker=WORKER)
    found, at = waiter.result(20)
    assert found and at - sent < SOON + 0.5


def test_a_replay_and_a_reclaim_wake_it(store: Store) -> None:
    bury(store, "a")
    waiter = in_thread(lambda: timed(lambda: store.broker.wait(["default"], timeout_seconds=20)))
    assert is_waiting(waiter)
    sent = time.monotonic()
    store.deadletters.replay(DeadFilter())
    found, at = waiter.result(20)
    assert found and at - sent < SOON
    (delivery,) = claim(store, lease=0.05)
    waiter = in_thread(lambda: timed(lambda: store.broker.wait(["default"], timeout_seconds=20)))
    assert is_waiting(waiter)
    expire(store, delivery)
    sent = time.monotonic()
    found, at = waiter.result(20)
    assert found and at - sent < SOON


def test_a_delayed_task_wakes_it_when_due(store: Store) -> None:
    store.broker.push([a_push("a", delay=0.6)])
    sent = time.monotonic()
    assert store.broker.wait(["default"], timeout_seconds=20)
    assert 0.5 <= time.monotonic() - sent < 1.6
    assert ids(claim(store)) == ["a"]


def test_a_delayed_push_while_it_sleeps_wakes_it_when_due(store: Store, open_store: OpenStore) -> None:
    waiter = in_thread(lambda: timed(lambda: store.broker.wait(["default"], timeout_seconds=20)))
    assert is_waiting(waiter)
    sent = time.monotonic()
    open_store().broker.push([a_push("a", delay=0.5)])
    # It may wake for nothing before; a consumer then simply waits again.
    while not (found := ids(claim(store))):
        waiter.result(20)
        waiter = in_thread(lambda: timed(lambda: store.broker.wait(["default"], timeout_seconds=20)))
    assert found == ["a"]
    assert 0.45 <= time.monotonic() - sent < 2.0


def test_a_retry_wakes_it_when_due(store: Store) -> None:
    delivery = push_and_claim(store)
    store.broker.settle([retry(delivery, 0.4)], worker=WORKER)
    sent = time.monotonic()
    while not claim(store):
        assert store.broker.wait(["default"], timeout_seconds=20)
    assert 0.3 <= time.monotonic() - sent < 1.4


def test_a_push_from_another_process_wakes_it(durable_store: Store, durable_url: str, namespace: str) -> None:
    gate = barrier(2)
    child = Errand(push_when_told, durable_url, namespace, "a", gate)
    waiter = in_thread(lambda: (durable_store.broker.wait(["default"], timeout_seconds=20), time.time()))
    gate.wait(60)
    found, at = waiter.result(20)
    assert found and at - child.result() < SOON


def test_closing_the_store_wakes_whoever_sleeps(open_store: OpenStore) -> None:
    store = open_store()
    subscription = store.mail.subscribe("news")
    sleepers: list[Future[Any]] = [
        in_thread(lambda: store.broker.wait(["default"], timeout_seconds=30)),
        in_thread(lambda: store.results.wait(["nobody"], timeout_seconds=30)),
        in_thread(lambda: store.events.wait(None, timeout_seconds=30)),
        in_thread(lambda: store.mail.receive("box", timeout_seconds=30)),
        in_thread(lambda: subscription.receive(timeout_seconds=30)),
    ]
    assert all(is_waiting(sleeper, seconds=0.05) for sleeper in sleepers)
    store.upkeep.close()
    store.upkeep.close()
    for sleeper in sleepers:
        try:
            assert not sleeper.result(3)
        except StemError:
            continue  # a store that is closed may also say so


@pytest.mark.parametrize("queues", [["default"], ["default", "second", "third"]])
def test_waiting_leaves_the_task_where_it_is(store: Store, queues: list[str]) -> None:
    store.broker.push(pushes("a", "b"))
    for _ in range(3):
        assert store.broker.wait(queues, timeout_seconds=5)
    assert ids(claim(store, *queues)) == ["a", "b"]
