"""On Redis and Postgres a push hands its task to a worker that waits: to one that lives, and once."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conftest import url_of
from stem.backends import standing
from stem.backends.postgres import bell
from stem.backends.postgres import standing as of_postgres
from stem.backends.redis import standing as of_redis
from stem.contracts.store import Store
from stem.core.envelope import Push
from stem.core.errors import StoreUnavailable
from support.asking import WORKER, claim, depth, ids, kinds_of, let_time_pass
from support.beside import in_thread, is_waiting
from support.builders import a_push, done
from support.fleet import Fleet, a_fleet
from support.opening import a_store
from support.seating import LEASE, listeners, push_each, seats, sits, standing_of, stands_by
from support.until import until


@pytest.fixture(autouse=True)
def _tells_of_every_push(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one that follows another at once."""
    monkeypatch.setattr(bell, "_GAP_SECONDS", 0.0)


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
    for module in (standing, of_postgres, of_redis):
        monkeypatch.setattr(module, "SEAT_SECONDS", seconds)


# Handed over


def test_a_push_leases_its_task_to_who_waits_and_a_claim_returns_it(store: Store, other: Store) -> None:
    push = a_push("a", args={"text": 'a "b"\n[ü]'})
    sits(store)
    other.broker.push([push])
    assert depth(other).running == 1
    assert claim(other) == []
    assert stands_by(store)
    (delivery,) = claim(store)
    assert (delivery.lease.id, delivery.attempt, delivery.deaths) == ("a", 0, 0)
    assert delivery.envelope.args == push.envelope.args
    assert claim(store) == []
    assert store.broker.settle([done(delivery)], worker=WORKER) == []
    assert [kind.value for kind in kinds_of(store, "a")] == ["enqueued", "started", "succeeded"]


def test_whoever_sleeps_is_woken_by_it(store: Store, other: Store) -> None:
    sits(store)
    waiting = in_thread(partial(stands_by, store, seconds=60))
    assert is_waiting(waiting)
    other.broker.push([a_push("a")])
    assert waiting.result(20)
    assert ids(store.broker.claim(["elsewhere"], limit=0, lease_seconds=LEASE)) == ["a"]


def test_no_more_is_handed_over_than_there_is_room_for(store: Store, other: Store) -> None:
    sits(store, room=2)
    push_each(other, "a", "b", "c")
    assert (depth(other).running, depth(other).ready) == (2, 1)
    assert ids(claim(other)) == ["c"]
    assert stands_by(store)
    assert ids(claim(store)) == ["a", "b"]


def test_who_has_most_room_gets_it(store: Store, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    last_for(60.0, monkeypatch)  # longer than any halt of the machine
    sits(store, room=2)
    sits(other, room=3)
    push_each(store, "a", "b", "c")
    assert depth(store).running == 3  # so that a claim finds only what was handed over, as it is heard of
    found: dict[str, list[str]] = {"store": [], "other": []}

    def all_are_heard_of() -> bool:
        for name, each in (("store", store), ("other", other)):
            if stands_by(each):
                found[name] += ids(claim(each))
        return len(found["store"]) + len(found["other"]) == 3

    until(all_are_heard_of, seconds=30)
    assert (len(found["store"]), len(found["other"])) == (1, 2)


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
def test_what_cannot_be_handed_over_waits_to_be_claimed(store: Store, other: Store, push: Push) -> None:
    sits(store)
    other.broker.push([push])
    found = other.broker.depth()
    assert sum(each.running for each in found.values()) == 0
    assert sum(each.ready + each.delayed for each in found.values()) == 1


def test_a_batch_waits_to_be_claimed_and_what_is_pushed_then_stays_behind_it(store: Store, other: Store) -> None:
    sits(store, room=5)
    other.broker.push([a_push("a"), a_push("b")])
    other.broker.push([a_push("c")])
    assert depth(other).ready == 3
    assert stands_by(store, room=5)
    assert ids(claim(store)) == ["a", "b", "c"]


def test_a_known_id_takes_no_seat(store: Store, other: Store) -> None:
    sits(store, room=1)
    other.broker.push([a_push("a")])
    assert stands_by(store)
    (first,) = claim(store)
    assert not stands_by(store, room=1)  # it sits again
    assert not other.broker.push([a_push("a")])[0].created
    store.broker.settle([done(first)], worker=WORKER)
    assert not other.broker.push([a_push("a")])[0].created
    other.broker.push([a_push("b")])
    assert depth(other).running == 1


# Not heard of


def test_what_was_asked_for_is_not_taken_twice_when_it_is_heard_of(store: Store, other: Store) -> None:
    sits(store)
    other.broker.push([a_push("a")])
    assert ids(store.broker.stand_down()) == ["a"]
    assert not stands_by(store)
    assert claim(store) == []


def test_what_was_heard_of_is_not_asked_for_again(store: Store, other: Store) -> None:
    sits(store, room=5)
    other.broker.push([a_push("a")])
    assert stands_by(store)
    assert ids(claim(store)) == ["a"]
    assert store.broker.stand_down() == []


def test_what_is_asked_for_takes_room(store: Store, other: Store) -> None:
    sits(store, room=3, lease=2.0)
    other.broker.push([a_push("a")])
    let_time_pass(store, 0.6)  # so that it is asked for
    assert stands_by(store, room=3, lease=2.0)
    push_each(other, "b", "c", "d")
    assert (depth(other).running, depth(other).ready) == (3, 1)


@pytest.mark.parametrize("is_heard", [True, False])
def test_an_answer_that_never_came_is_asked_for_again_and_taken_once(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch, *, is_heard: bool
) -> None:
    sits(store, room=5)
    other.broker.push([a_push("a")])
    found = list[str]()
    if is_heard:
        assert stands_by(store, room=5)
        found += ids(claim(store))
    link = standing_of(store)._space.link  # type: ignore[attr-defined]
    way = "cells" if hasattr(link, "cells") else "call"
    asks = getattr(link, way)

    def unanswered(*asked: Any, **more: Any) -> None:
        asks(*asked, **more)
        raise StoreUnavailable("no answer by the deadline")

    with monkeypatch.context() as patch:
        patch.setattr(link, way, unanswered)
        assert store.broker.stand_down() == []
    found += ids(store.broker.stand_down())
    assert found == ["a"]
    sits(store)
    assert claim(store) == []


def test_what_came_too_late_belongs_to_who_has_claimed_it_since(store: Store, other: Store) -> None:
    sits(store, lease=0.05)
    other.broker.push([a_push("a")])
    until(lambda: other.broker.reclaim().returned)
    (claimed,) = claim(other)
    assert store.broker.stand_down() == []
    assert other.broker.settle([done(claimed)], worker=WORKER) == []


def test_one_that_is_heard_of_when_it_is_anothers_is_left_to_him(store: Store, other: Store) -> None:
    sits(store, lease=0.05)
    other.broker.push([a_push("a")])
    until(lambda: other.broker.reclaim().returned)
    (claimed,) = claim(other)
    assert not stands_by(store)
    assert claim(store) == []
    assert other.broker.settle([done(claimed)], worker=WORKER) == []


# Who is there


def test_a_seat_that_is_not_kept_is_soon_nobodys(store: Store, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is that of a worker which is frozen."""
    last_for(0.05, monkeypatch)
    sits(store, room=1)
    let_time_pass(store, 0.06)
    other.broker.push([a_push("a")])
    assert depth(other).ready == 1


def test_who_waits_for_long_keeps_his_seat(store: Store, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    last_for(2.5, monkeypatch)
    sits(store)
    waiting = in_thread(partial(stands_by, store, seconds=60))
    let_time_pass(store, 3.0)
    other.broker.push([a_push("a")])
    assert waiting.result(20)
    assert depth(other).running == 1


def test_a_child_process_leaves_the_seat_of_its_parent_alone(store: Store, other: Store) -> None:
    sits(store, room=2)
    other.broker.push([a_push("a")])
    assert stands_by(store, room=2)  # it has heard of it, and claims it below
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            found = claim(store) + store.broker.stand_down(for_good=True)
            code = 0 if found == [] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    other.broker.push([a_push("b")])
    assert depth(other).running == 2
    assert ids(claim(store)) == ["a"]
    assert stands_by(store)
    assert ids(claim(store)) == ["b"]


# Standing down


def test_who_stands_down_is_handed_nothing_until_he_stands_by_again(store: Store, other: Store) -> None:
    sits(store)
    assert store.broker.stand_down() == []
    other.broker.push([a_push("a")])
    assert ids(claim(store)) == ["a"]
    sits(store)
    other.broker.push([a_push("b")])
    assert depth(other).running == 2


def test_who_stands_down_for_good_never_sits_again(store: Store, other: Store) -> None:
    sits(store)
    other.broker.push([a_push("a")])
    assert ids(store.broker.stand_down(for_good=True)) == ["a"]
    assert not stands_by(store)
    other.broker.push([a_push("b")])
    assert depth(other).ready == 1


def test_standing_down_ends_the_wait_and_its_queues_are_not_sat_for_again(store: Store, other: Store) -> None:
    sits(store)
    waiting = in_thread(partial(stands_by, store, seconds=60))
    assert is_waiting(waiting)
    assert store.broker.stand_down() == []
    assert waiting.result(20)
    other.broker.push([a_push("a")])
    assert depth(other).ready == 1


def test_the_seat_follows_room_and_queues(store: Store, other: Store) -> None:
    sits(store, room=5)
    assert not stands_by(store, room=2)
    push_each(other, "a", "b", "c")
    assert (depth(other).running, depth(other).ready) == (2, 1)
    assert len(claim(other)) == 1
    assert stands_by(store, ("a", "b"), room=2)
    assert len(claim(store)) == 2
    assert not stands_by(store, ("a", "b"), room=2)
    push_each(other, "d")
    assert depth(other).ready == 1
    other.broker.push([a_push(queue="b")])
    assert depth(other, "b").running == 1
    assert stands_by(store, ("a", "b"), room=0)
    assert len(claim(store)) == 1
    assert not stands_by(store, ("a", "b"), room=0)
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
    until(lambda: seats(url, namespace) == 2)
    killed.send(signal.SIGKILL)
    killed.process.wait(20)
    until(lambda: listeners(url, namespace) == 1)  # what is handed to him before he is missed comes back by its lease
    fleet.ended([fleet.push("note", f"after{number}")[0] for number in range(10)], seconds=10)
    assert left.is_alive


def test_a_worker_that_stops_while_tasks_come_leaves_none_behind(fleet: Fleet, url: str, namespace: str) -> None:
    """Nor one that waits for its lease to run out, which would take 30 s."""
    fleet.start()
    fleet.ended(fleet.push("note", "first"))
    until(lambda: seats(url, namespace) == 1)
    pushed = list[str]()
    for number in range(4):
        worker = fleet.start()
        worker.send(signal.SIGTERM)
        while worker.is_alive:
            pushed += fleet.push("note", f"t{number}-{len(pushed)}")
        assert worker.process.wait(20) == 0
    fleet.ended(pushed, seconds=10)
    assert max(fleet.ledger.runs().values()) == 1
