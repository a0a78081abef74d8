"""Claims wake up, they do not poll: what `wait` promises."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from itertools import count
from typing import Any

import pytest

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter
from stem.core.errors import StemError
from support.background import Errand, barrier, in_thread, is_waiting, takes_less_than, timed
from support.builders import a_push, pushes, requeue, retry
from support.stores.calls import WORKER, claim, expire, fail_for_good, ids, let_time_pass, push_and_claim
from support.stores.process_targets import push_when_told

SOON = 0.5  # generous for a loaded machine; awake it is milliseconds


def seconds_of(work: Callable[[], object], *, at_least: float = 0.0) -> float:
    began = time.monotonic()
    work()
    taken = time.monotonic() - began
    assert taken >= at_least
    return taken


def seconds_to_wake(wait: Callable[[], bool], change: Callable[[], object], *, asleep: float = 0.15) -> float:
    """From the change until who sleeps is awake."""
    waiter = in_thread(lambda: timed(wait))
    assert is_waiting(waiter, seconds=asleep)
    sent = time.monotonic()
    change()
    found, at = waiter.result(30)
    assert found
    return at - sent


def test_it_returns_at_once_when_something_is_due(store: Store) -> None:
    store.broker.push(pushes("a"))

    def wait() -> None:
        assert store.broker.wait(["default"], timeout_seconds=20)

    takes_less_than(SOON, lambda: seconds_of(wait))


def test_it_ends_on_time_when_nothing_comes(store: Store) -> None:
    store.broker.push(pushes("elsewhere", queue="other"))

    def wait() -> None:
        assert not store.broker.wait(["default"], timeout_seconds=0.3)

    takes_less_than(0.3 + SOON, lambda: seconds_of(wait, at_least=0.29))


def test_it_does_not_block_without_time(store: Store) -> None:
    def wait() -> None:
        assert not store.broker.wait(["default"], timeout_seconds=0)

    takes_less_than(SOON, lambda: seconds_of(wait))


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
    wait = partial(store.broker.wait, ["x", "default"], timeout_seconds=20)

    def seconds() -> float:
        taken = seconds_to_wake(wait, lambda: other.broker.push([a_push()]))
        assert len(claim(store)) == 1
        return taken

    takes_less_than(SOON, seconds)


def test_a_push_wakes_it_again_and_again(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    wait = partial(store.broker.wait, ["default"], timeout_seconds=20)

    def seconds() -> float:
        taken = seconds_to_wake(wait, lambda: other.broker.push([a_push()]), asleep=0.03)
        assert len(claim(store)) == 1
        return taken

    for _ in range(5):
        takes_less_than(SOON, seconds)


def test_every_waiter_on_the_queue_wakes(store: Store, open_store: OpenStore) -> None:
    sleepers = (store, store, open_store())

    def seconds() -> float:
        waiters = [
            in_thread(partial(timed, partial(each.broker.wait, ["default"], timeout_seconds=20))) for each in sleepers
        ]
        assert all(is_waiting(waiter, seconds=0.1) for waiter in waiters)
        sent = time.monotonic()
        store.broker.push([a_push() for _ in range(3)])
        answers = [waiter.result(30) for waiter in waiters]
        assert all(found for found, _ in answers) and len(claim(store)) == 3
        return max(at for _, at in answers) - sent

    takes_less_than(SOON, seconds)


def test_a_requeue_wakes_it(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    held = [push_and_claim(store)]
    wait = partial(store.broker.wait, ["default"], timeout_seconds=20)

    def seconds() -> float:
        taken = seconds_to_wake(wait, lambda: other.broker.settle([requeue(held[-1])], worker=WORKER))
        held.extend(claim(store))
        return taken

    takes_less_than(SOON, seconds)


def test_a_replay_and_a_reclaim_wake_it(store: Store) -> None:
    wait = partial(store.broker.wait, ["default"], timeout_seconds=20)
    names = (f"a{number}" for number in count(1))

    def seconds_after_a_replay() -> float:
        fail_for_good(store, next(names))
        taken = seconds_to_wake(wait, lambda: store.deadletters.replay(DeadFilter()))
        assert len(claim(store)) == 1
        return taken

    def seconds_after_a_reclaim() -> float:
        delivery = push_and_claim(store, lease=0.05)
        let_time_pass(store, 0.06)
        taken = seconds_to_wake(wait, lambda: expire(store, delivery))
        assert len(claim(store)) == 1
        return taken

    takes_less_than(SOON, seconds_after_a_replay)
    takes_less_than(SOON, seconds_after_a_reclaim)


def test_a_delayed_task_wakes_it_when_due(store: Store) -> None:
    def wait() -> None:
        store.broker.push([a_push(delay=0.6)])
        while not claim(store):  # it may wake for nothing before
            assert store.broker.wait(["default"], timeout_seconds=20)

    takes_less_than(1.6, lambda: seconds_of(wait, at_least=0.55))


def test_a_delayed_push_while_it_sleeps_wakes_it_when_due(store: Store, open_store: OpenStore) -> None:
    other = open_store()

    def seconds() -> float:
        waiter = in_thread(lambda: store.broker.wait(["default"], timeout_seconds=20))
        assert is_waiting(waiter)
        sent = time.monotonic()
        other.broker.push([a_push(delay=0.5)])
        # It may wake for nothing before; a consumer then simply waits again.
        while not claim(store):
            waiter.result(30)
            waiter = in_thread(lambda: store.broker.wait(["default"], timeout_seconds=20))
        taken = time.monotonic() - sent
        assert taken >= 0.45
        return taken

    takes_less_than(2.0, seconds)


def test_a_retry_wakes_it_when_due(store: Store) -> None:
    held = [push_and_claim(store)]

    def wait() -> None:
        store.broker.settle([retry(held[-1], 0.4)], worker=WORKER)
        while not (found := claim(store)):
            assert store.broker.wait(["default"], timeout_seconds=20)
        held.extend(found)

    takes_less_than(1.4, lambda: seconds_of(wait, at_least=0.35))


def test_a_push_from_another_process_wakes_it(durable_store: Store, durable_url: str, namespace: str) -> None:
    names = (f"a{number}" for number in count(1))

    def seconds() -> float:
        gate = barrier(2)
        child = Errand(push_when_told, durable_url, namespace, next(names), gate)
        waiter = in_thread(lambda: (durable_store.broker.wait(["default"], timeout_seconds=60), time.time()))
        gate.wait(60)
        found, at = waiter.result(60)
        assert found and len(claim(durable_store)) == 1
        return at - child.result()

    takes_less_than(SOON, seconds)


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
            assert not sleeper.result(15)
        except StemError:
            continue  # a store that is closed may also say so


@pytest.mark.parametrize("queues", [["default"], ["default", "second", "third"]])
def test_waiting_leaves_the_task_where_it_is(store: Store, queues: list[str]) -> None:
    store.broker.push(pushes("a", "b"))
    for _ in range(3):
        assert store.broker.wait(queues, timeout_seconds=20)
    assert ids(claim(store, *queues)) == ["a", "b"]


def test_a_waiting_worker_gets_each_task_once_while_others_claim(store: Store, open_store: OpenStore) -> None:
    """Handed over or claimed, and what he was handed when he stands down comes then."""
    other, found = open_store(), list[str]()
    pushed = [f"t{number}" for number in range(60)]
    pusher = in_thread(lambda: [other.broker.push(pushes(id)) for id in pushed])
    while len(found) < 40:
        store.broker.wait_for_handoff(["default"], room=lambda: 2, lease_seconds=60, timeout_seconds=20)
        found += ids(claim(store, limit=2))
    pusher.result(30)
    found += ids(store.broker.stop_handoff())
    found += ids(claim(other))
    assert sorted(found) == sorted(pushed)
    assert claim(store) == []


def test_a_waiting_worker_without_room_is_woken_all_the_same(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    wait_for_handoff = partial(
        store.broker.wait_for_handoff, ["default"], room=lambda: 0, lease_seconds=60, timeout_seconds=20
    )
    takes_less_than(
        SOON, lambda: seconds_to_wake(wait_for_handoff, lambda: other.broker.push([a_push()])) + drained(other)
    )


def drained(store: Store) -> float:
    claim(store)
    return 0.0
