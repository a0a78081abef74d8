"""On Redis and Postgres a push hands its task to a worker that waits: to one that lives, and once."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conftest import url_of
from stem.backends import handoff
from stem.backends.postgres.notify import handoff as of_postgres
from stem.backends.postgres.notify import notifier
from stem.backends.redis import handoff as of_redis
from stem.contracts.store import Store
from stem.core.envelope import Push
from stem.core.errors import StoreUnavailable
from support.background import in_thread, is_waiting
from support.builders import a_push, done
from support.stores.calls import WORKER, claim, depth, ids, kinds_of, let_time_pass
from support.stores.handoffs import LEASE, handoff_of, listeners, push_each, register, registrations, wait_for_handoff
from support.stores.opened import a_store
from support.until import until
from support.workers.fleet import Fleet, a_fleet


@pytest.fixture(autouse=True)
def _tells_of_every_push(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one that follows another at once."""
    monkeypatch.setattr(notifier, "_GAP_SECONDS", 0.0)


@pytest.fixture(params=["redis", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
def store(url: str, namespace: str) -> Iterator[Store]:
    yield from a_store(url, namespace)


@pytest.fixture
def other(url: str, namespace: str) -> Iterator[Store]:
    yield from a_store(url, namespace)


def last_for(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (handoff, of_postgres, of_redis):
        monkeypatch.setattr(module, "REGISTRATION_SECONDS", seconds)


# Handed over


def test_a_push_leases_its_task_to_a_waiting_worker_and_a_claim_returns_it(store: Store, other: Store) -> None:
    push = a_push("a", args={"text": 'a "b"\n[ü]'})
    register(store)
    other.broker.push([push])
    assert depth(other).running == 1
    assert claim(other) == []
    assert wait_for_handoff(store)
    (delivery,) = claim(store)
    assert (delivery.lease.id, delivery.attempt, delivery.deaths) == ("a", 0, 0)
    assert delivery.envelope.args == push.envelope.args
    assert claim(store) == []
    assert store.broker.settle([done(delivery)], worker=WORKER) == []
    assert [kind.value for kind in kinds_of(store, "a")] == ["enqueued", "started", "succeeded"]


def test_a_handed_over_task_wakes_a_sleeping_worker(store: Store, other: Store) -> None:
    register(store)
    waiting = in_thread(partial(wait_for_handoff, store, seconds=60))
    assert is_waiting(waiting)
    other.broker.push([a_push("a")])
    assert waiting.result(20)
    assert ids(store.broker.claim(["elsewhere"], limit=0, lease_seconds=LEASE)) == ["a"]


def test_no_more_is_handed_over_than_there_is_room_for(store: Store, other: Store) -> None:
    register(store, room=2)
    push_each(other, "a", "b", "c")
    assert (depth(other).running, depth(other).ready) == (2, 1)
    assert ids(claim(other)) == ["c"]
    assert wait_for_handoff(store)
    assert ids(claim(store)) == ["a", "b"]


def test_the_worker_with_most_room_gets_the_task(store: Store, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    last_for(60.0, monkeypatch)  # longer than any halt of the machine

    def shares() -> tuple[int, int] | None:
        """How many each was handed; None if a halt of the machine has cost one its connection, and its registration."""
        for each in (store, other):
            assert each.broker.stop_handoff() == []  # an earlier try may have left it with less room
        register(store, room=2)
        register(other, room=3)
        push_each(store, *(uuid4().hex for _ in range(3)))
        are_handed_over = depth(store).running == 3  # so that a claim returns only those, as each is received
        found: dict[str, int] = {"store": 0, "other": 0}

        def all_are_received() -> bool:
            for name, each in (("store", store), ("other", other)):
                if wait_for_handoff(each):
                    taken = claim(each)
                    each.broker.settle([done(delivery) for delivery in taken], worker=WORKER)
                    found[name] += len(taken)
            return found["store"] + found["other"] == 3

        until(all_are_received, seconds=30)
        return (found["store"], found["other"]) if are_handed_over else None

    assert until(shares, seconds=60) == (1, 2)


@pytest.mark.parametrize(
    "push",
    [
        a_push("x", delay=3600.0),
        a_push("x", expires=3600.0),
        a_push("x", queue="elsewhere"),
        a_push("x", args={"large": "ü" * 4000}),
    ],
    ids=["delayed", "expiring", "of another queue", "too large to be told"],
)
def test_a_task_that_cannot_be_handed_over_waits_to_be_claimed(store: Store, other: Store, push: Push) -> None:
    register(store)
    other.broker.push([push])
    found = other.broker.depth()
    assert sum(each.running for each in found.values()) == 0
    assert sum(each.ready + each.delayed for each in found.values()) == 1


def test_a_batch_waits_to_be_claimed_and_what_is_pushed_then_stays_behind_it(store: Store, other: Store) -> None:
    register(store, room=5)
    other.broker.push([a_push("a"), a_push("b")])
    other.broker.push([a_push("c")])
    assert depth(other).ready == 3
    assert wait_for_handoff(store, room=5)
    assert ids(claim(store)) == ["a", "b", "c"]


def test_a_known_id_takes_no_free_slot(store: Store, other: Store) -> None:
    register(store, room=1)
    other.broker.push([a_push("a")])
    assert wait_for_handoff(store)
    (first,) = claim(store)
    assert not wait_for_handoff(store, room=1)  # it register again
    assert not other.broker.push([a_push("a")])[0].created
    store.broker.settle([done(first)], worker=WORKER)
    assert not other.broker.push([a_push("a")])[0].created
    other.broker.push([a_push("b")])
    assert depth(other).running == 1


# Not heard of


def test_a_fetched_task_is_not_taken_again_when_its_message_arrives(store: Store, other: Store) -> None:
    register(store)
    other.broker.push([a_push("a")])
    assert ids(store.broker.stop_handoff()) == ["a"]
    assert not wait_for_handoff(store)
    assert claim(store) == []


def test_a_received_task_is_not_fetched_again(store: Store, other: Store) -> None:
    register(store, room=5)
    other.broker.push([a_push("a")])
    assert wait_for_handoff(store)
    assert ids(claim(store)) == ["a"]
    assert store.broker.stop_handoff() == []


def test_a_fetched_task_takes_room(store: Store, other: Store) -> None:
    register(store, room=3, lease=2.0)
    other.broker.push([a_push("a")])
    let_time_pass(store, 0.6)  # so that it is asked for
    assert wait_for_handoff(store, room=3, lease=2.0)
    push_each(other, "b", "c", "d")
    assert (depth(other).running, depth(other).ready) == (3, 1)


@pytest.mark.parametrize("is_heard", [True, False])
def test_an_answer_that_never_came_is_fetched_again_and_taken_once(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch, *, is_heard: bool
) -> None:
    register(store, room=5)
    other.broker.push([a_push("a")])
    found = list[str]()
    if is_heard:
        assert wait_for_handoff(store, room=5)
        found += ids(claim(store))
    handoff: Any = handoff_of(store)
    client = handoff._namespace.client
    way = "cells" if hasattr(client, "cells") else "call"
    asks = getattr(client, way)

    def unanswered(*asked: Any, **more: Any) -> None:
        asks(*asked, **more)
        raise StoreUnavailable("no answer by the deadline")

    with monkeypatch.context() as patch:
        patch.setattr(client, way, unanswered)
        assert store.broker.stop_handoff() == []
    found += ids(store.broker.stop_handoff())
    assert found == ["a"]
    register(store)
    assert claim(store) == []


def test_a_task_that_arrives_too_late_belongs_to_its_new_claimer(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_for(60.0, monkeypatch)
    register(store, lease=0.05)
    other.broker.push([a_push("a")])
    until(lambda: other.broker.reclaim().returned)
    (claimed,) = claim(other)
    assert store.broker.stop_handoff() == []
    assert other.broker.settle([done(claimed)], worker=WORKER) == []


def test_a_notification_of_a_task_that_another_worker_has_claimed_since_is_ignored(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_for(60.0, monkeypatch)
    register(store, lease=0.05)
    other.broker.push([a_push("a")])
    until(lambda: other.broker.reclaim().returned)
    (claimed,) = claim(other)
    until(lambda: not wait_for_handoff(store))  # the reclaim wakes it, at its own pace
    assert claim(store) == []
    assert other.broker.settle([done(claimed)], worker=WORKER) == []


# Who is there


def test_a_registration_that_is_not_renewed_expires(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is that of a worker which is frozen."""
    last_for(0.05, monkeypatch)
    register(store, room=1)
    let_time_pass(store, 0.06)
    other.broker.push([a_push("a")])
    assert depth(other).ready == 1


def test_a_worker_that_waits_for_long_keeps_its_registration(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_for(2.5, monkeypatch)
    register(store)
    waiting = in_thread(partial(wait_for_handoff, store, seconds=60))
    let_time_pass(store, 3.0)
    other.broker.push([a_push("a")])
    assert waiting.result(20)
    assert depth(other).running == 1


def test_a_child_process_leaves_the_registration_of_its_parent_alone(store: Store, other: Store) -> None:
    register(store, room=2)
    other.broker.push([a_push("a")])
    assert wait_for_handoff(store, room=2)  # it has heard of it, and claims it below
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            found = claim(store) + store.broker.stop_handoff(for_good=True)
            code = 0 if found == [] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    other.broker.push([a_push("b")])
    assert depth(other).running == 2
    assert ids(claim(store)) == ["a"]
    assert wait_for_handoff(store)
    assert ids(claim(store)) == ["b"]


# Standing down


def test_a_worker_that_withdraws_is_handed_nothing_until_it_registers_again(store: Store, other: Store) -> None:
    register(store)
    assert store.broker.stop_handoff() == []
    other.broker.push([a_push("a")])
    assert ids(claim(store)) == ["a"]
    register(store)
    other.broker.push([a_push("b")])
    assert depth(other).running == 2


def test_a_worker_that_withdraws_for_good_never_registers_again(store: Store, other: Store) -> None:
    register(store)
    other.broker.push([a_push("a")])
    assert ids(store.broker.stop_handoff(for_good=True)) == ["a"]
    assert not wait_for_handoff(store)
    other.broker.push([a_push("b")])
    assert depth(other).ready == 1


def test_withdrawing_ends_the_wait_and_does_not_register_again(store: Store, other: Store) -> None:
    register(store)
    waiting = in_thread(partial(wait_for_handoff, store, seconds=60))
    assert is_waiting(waiting)
    assert store.broker.stop_handoff() == []
    assert waiting.result(20)
    other.broker.push([a_push("a")])
    assert depth(other).ready == 1


def test_the_registration_follows_room_and_queues(store: Store, other: Store) -> None:
    register(store, room=5)
    assert not wait_for_handoff(store, room=2)
    push_each(other, "a", "b", "c")
    assert (depth(other).running, depth(other).ready) == (2, 1)
    assert len(claim(other)) == 1
    assert wait_for_handoff(store, ("a", "b"), room=2)
    assert len(claim(store)) == 2
    assert not wait_for_handoff(store, ("a", "b"), room=2)
    push_each(other, "d")
    assert depth(other).ready == 1
    other.broker.push([a_push(queue="b")])
    assert depth(other, "b").running == 1
    assert wait_for_handoff(store, ("a", "b"), room=0)
    assert len(claim(store)) == 1
    assert not wait_for_handoff(store, ("a", "b"), room=0)
    other.broker.push([a_push(queue="a")])
    assert depth(other, "a").ready == 1


# With real workers


@pytest.fixture
def fleet(url: str, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(url, namespace, tmp_path)


def test_when_an_idle_worker_is_killed_nothing_waits_for_its_leases(fleet: Fleet, url: str, namespace: str) -> None:
    killed, left = fleet.start(), fleet.start()
    for number in range(6):  # both have heard something
        fleet.ended(fleet.push("note", f"t{number}"))
    until(lambda: registrations(url, namespace) == 2)
    killed.send(signal.SIGKILL)
    killed.process.wait(20)
    until(lambda: listeners(url, namespace) == 1)  # what is handed to him before he is missed comes back by its lease
    fleet.ended([fleet.push("note", f"after{number}")[0] for number in range(10)], seconds=10)
    assert left.is_alive


def test_a_worker_that_stops_while_tasks_come_leaves_none_behind(fleet: Fleet, url: str, namespace: str) -> None:
    """Nor one that waits for its lease to run out, which would take 30 s."""
    fleet.start()
    fleet.ended(fleet.push("note", "first"))
    until(lambda: registrations(url, namespace) == 1)
    pushed = list[str]()
    for number in range(4):
        worker = fleet.start()
        worker.send(signal.SIGTERM)
        while worker.is_alive:
            pushed += fleet.push("note", f"t{number}-{len(pushed)}")
        assert worker.process.wait(20) == 0
    fleet.ended(pushed, seconds=10)
    assert max(fleet.ledger.runs().values()) == 1
