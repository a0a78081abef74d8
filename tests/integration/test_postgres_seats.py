"""A push hands its task to a worker that waits: to one that lives, once, and what is not heard of is asked for."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stem.backends import connect
from stem.backends.postgres import bell, standing
from stem.backends.postgres.broker import PostgresBroker
from stem.backends.postgres.exchange import Statement
from stem.backends.postgres.standing import Standing
from stem.contracts.store import Store
from stem.core.config import Settings
from stem.core.envelope import Push
from stem.core.errors import StoreUnavailable
from support.asking import WORKER, answered, claim, depth, ids, kinds_of, let_time_pass
from support.beside import in_thread, is_waiting
from support.builders import a_push, done
from support.fleet import Fleet, a_fleet
from support.servers import PostgresServer
from support.until import until

LEASE = 60.0


@pytest.fixture(autouse=True)
def _tells_of_every_push(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one that follows another at once."""
    monkeypatch.setattr(bell, "_GAP_SECONDS", 0.0)


@pytest.fixture
def store(postgres_server: PostgresServer, namespace: str) -> Iterator[Store]:
    opened = connect(postgres_server.url, Settings(namespace=namespace, timeout_seconds=30.0))
    yield opened
    opened.upkeep.close()


@pytest.fixture
def other(postgres_server: PostgresServer, namespace: str) -> Iterator[Store]:
    opened = connect(postgres_server.url, Settings(namespace=namespace, timeout_seconds=30.0))
    yield opened
    opened.upkeep.close()


@pytest.fixture
def admin(postgres_server: PostgresServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_server.url, autocommit=True) as conn:
        yield conn


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


def test_who_has_most_room_gets_it(store: Store, other: Store) -> None:
    sits(store, room=2)
    sits(other, room=3)
    push_each(store, "a", "b", "c")
    assert stands_by(store)
    assert stands_by(other)
    assert (len(claim(store)), len(claim(other))) == (1, 2)


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


def test_the_lease_lasts_what_the_waiter_said_or_the_call_itself(
    store: Store, other: Store, admin: psycopg.Connection, namespace: str
) -> None:
    sits(store, room=2)
    other.broker.push([a_push("as said")])
    other.broker.push([a_push("its own", visibility_timeout=500.0)])
    query = "SELECT id, round(leased_until - enqueued_at) FROM stem.messages WHERE ns = %s"
    assert dict(admin.execute(query, [namespace]).fetchall()) == {"as said": LEASE, "its own": 500}


# Not heard of


def test_what_was_said_over_a_connection_that_broke_is_asked_for(
    store: Store, other: Store, admin: psycopg.Connection
) -> None:
    sits(store)
    push_each(other, "a", "b")
    cut(admin, store)
    assert until(lambda: stands_by(store))
    assert ids(claim(store)) == ["a", "b"]
    listens(store)
    assert not stands_by(store)
    assert claim(store) == []


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


def test_an_answer_that_never_came_makes_nothing_be_taken_twice(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sits(store, room=5)
    other.broker.push([a_push("a")])
    assert stands_by(store)
    assert ids(claim(store)) == ["a"]
    link = broker_of(store)._space.link
    cells = link.cells

    def unanswered(asked: Statement, **more: Any) -> None:
        cells(asked, **more)
        raise StoreUnavailable("no answer by the deadline")

    with monkeypatch.context() as patch:
        patch.setattr(link, "cells", unanswered)
        with pytest.raises(StoreUnavailable):
            store.broker.stand_down()
    assert store.broker.stand_down() == []
    assert not stands_by(store)
    assert claim(store) == []


def test_what_came_too_late_belongs_to_who_has_claimed_it_since(store: Store, other: Store) -> None:
    sits(store, lease=0.05)
    other.broker.push([a_push("a")])
    until(lambda: other.broker.reclaim().returned)
    (claimed,) = claim(other)
    assert store.broker.stand_down() == []
    assert other.broker.settle([done(claimed)], worker=WORKER) == []


def test_one_that_is_heard_of_too_late_is_refused_when_it_is_settled(store: Store, other: Store) -> None:
    sits(store, lease=0.05)
    other.broker.push([a_push("a")])
    until(lambda: other.broker.reclaim().returned)
    (claimed,) = claim(other)
    assert stands_by(store)
    (late,) = claim(store)
    assert store.broker.settle([done(late)], worker=WORKER) == [late.lease]
    assert other.broker.settle([done(claimed)], worker=WORKER) == []


# Who is there


def test_nobody_is_handed_anything_before_he_has_heard_something(store: Store, other: Store, seats: "Seats") -> None:
    """Through some poolers nobody ever hears."""
    waiting = in_thread(partial(stands_by, store, seconds=60))
    until(lambda: broker_of(store)._space.listeners.work.mark is not None)
    assert is_waiting(waiting)
    assert seats.count() == 0
    other.broker.push([a_push("a")])
    assert waiting.result(20)
    assert depth(other).ready == 1


def test_a_worker_whose_connection_is_gone_is_handed_nothing(
    store: Store, other: Store, admin: psycopg.Connection, seats: "Seats"
) -> None:
    sits(store)
    cut(admin, store)
    other.broker.push([a_push("a")])
    assert seats.count() == 0
    assert ids(claim(other)) == ["a"]


def test_a_seat_that_is_not_kept_is_soon_nobodys(store: Store, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is that of a worker which is frozen."""
    monkeypatch.setattr(standing, "_SEAT_SECONDS", 0.05)
    sits(store, room=1)
    let_time_pass(store, 0.06)
    other.broker.push([a_push("a")])
    assert depth(other).ready == 1


def test_who_waits_for_long_keeps_his_seat(store: Store, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "_SEAT_SECONDS", 2.5)
    sits(store)
    waiting = in_thread(partial(stands_by, store, seconds=60))
    let_time_pass(store, 3.0)
    other.broker.push([a_push("a")])
    assert waiting.result(20)
    assert depth(other).running == 1


def test_seats_of_those_who_left_without_a_word_are_cleared_away(
    store: Store, admin: psycopg.Connection, namespace: str, seats: "Seats"
) -> None:
    query = "INSERT INTO stem.seats SELECT %s, n, 0, 0, 5, '{default}', '{}' FROM generate_series(1, 100) n"
    admin.execute(query, [namespace])
    sits(store)
    assert seats.count() == 1


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


def test_who_stands_down_for_good_never_sits_again(store: Store, other: Store, seats: "Seats") -> None:
    sits(store)
    other.broker.push([a_push("a")])
    assert ids(store.broker.stand_down(for_good=True)) == ["a"]
    assert not stands_by(store)
    assert seats.count() == 0


def test_standing_down_ends_the_wait_and_its_queues_are_not_sat_for_again(
    store: Store, other: Store, seats: "Seats"
) -> None:
    sits(store)
    waiting = in_thread(partial(stands_by, store, seconds=60))
    assert is_waiting(waiting)
    assert store.broker.stand_down() == []
    assert waiting.result(20)
    assert seats.count() == 0


def test_the_seat_follows_room_and_queues(store: Store, other: Store, seats: "Seats") -> None:
    sits(store, room=5)
    assert not stands_by(store, room=2)
    assert seats.all() == [(2, ["default"])]
    assert not stands_by(store, ("a", "b"), room=2)
    assert seats.all() == [(2, ["a", "b"])]
    assert not stands_by(store, ("a", "b"), room=0)
    assert seats.count() == 0


def test_a_crash_of_the_server_leaves_nobody_seated_and_everybody_finds_his_way(namespace: str) -> None:
    server = PostgresServer()
    store, other = (connect(server.url, Settings(namespace=namespace, timeout_seconds=30.0)) for _ in range(2))
    try:
        sits(store)
        other.broker.push([a_push("a")])
        server.lose()
        until(lambda: answered(lambda: [stands_by(store)]), seconds=30)
        assert depth(other).running == 1
        assert ids(claim(store)) in (["a"], [])  # it may have been heard of before
        sits(store)
        other.broker.push([a_push("b")])
        assert stands_by(store)
        assert ids(claim(store)) == ["b"]
    finally:
        store.upkeep.close()
        other.upkeep.close()
        server.close()


# With real workers


@pytest.fixture
def fleet(postgres_server: PostgresServer, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(postgres_server.url, namespace, tmp_path)


def test_a_worker_is_handed_most_of_what_is_pushed_one_by_one(fleet: Fleet, seats: "Seats") -> None:
    fleet.start()
    fleet.ended(fleet.push("note", "first"))
    for number in range(20):
        until(lambda: seats.count() == 1)
        fleet.ended(fleet.push("note", f"t{number}"))
    assert max(fleet.ledger.runs().values()) == 1
    assert seats.claims() < 10


def test_when_an_idle_worker_is_killed_nothing_waits_for_its_leases(fleet: Fleet, seats: "Seats") -> None:
    killed, left = fleet.start(), fleet.start()
    for number in range(6):  # both have heard something
        fleet.ended(fleet.push("note", f"t{number}"))
    until(lambda: seats.count() == 2)
    killed.send(signal.SIGKILL)
    killed.process.wait(20)
    fleet.ended([fleet.push("note", f"after{number}")[0] for number in range(10)], seconds=10)
    assert left.is_alive


def test_a_worker_that_stops_while_tasks_come_leaves_none_behind(fleet: Fleet, seats: "Seats") -> None:
    """Nor one that waits for its lease to run out, which would take 30 s."""
    fleet.start()
    fleet.ended(fleet.push("note", "first"))
    until(lambda: seats.count() == 1)
    pushed = list[str]()
    for number in range(4):
        worker = fleet.start()
        worker.send(signal.SIGTERM)
        while worker.is_alive:
            pushed += fleet.push("note", f"t{number}-{len(pushed)}")
        assert worker.process.wait(20) == 0
    fleet.ended(pushed, seconds=10)
    assert max(fleet.ledger.runs().values()) == 1


# Helpers


class Seats:
    def __init__(self, admin: psycopg.Connection, namespace: str) -> None:
        self._admin = admin
        self._namespace = namespace

    def all(self) -> list[tuple[int, list[str]]]:
        query = "SELECT free, queues FROM stem.seats WHERE ns = %s"
        return self._admin.execute(query, [self._namespace]).fetchall()

    def count(self) -> int:
        return len(self.all())

    def claims(self) -> int:
        """How many tasks were claimed: one that is handed over has its fence from its push."""
        query = "SELECT count(*) FROM stem.records WHERE ns = %s AND fence <> (enqueued_at * 1000000)::bigint"
        ((count,),) = self._admin.execute(query, [self._namespace]).fetchall()
        return int(count)


@pytest.fixture
def seats(admin: psycopg.Connection, namespace: str) -> Seats:
    return Seats(admin, namespace)


def stands_by(
    store: Store, queues: tuple[str, ...] = ("default",), *, room: int = 2, lease: float = LEASE, seconds: float = 0.05
) -> bool:
    return store.broker.stand_by(queues, room=lambda: room, lease_seconds=lease, timeout_seconds=seconds)


def sits(store: Store, *, room: int = 2, lease: float = LEASE) -> None:
    """It may be handed something, and hears of it when it waits again."""

    def is_seated() -> bool:
        listens(store)
        assert not stands_by(store, room=room, lease=lease)
        return standing_of(store)._seat is not None

    until(is_seated)  # a connection that has just broken is found out first


def listens(store: Store) -> None:
    """It has heard something over the connection that it has now."""
    work = broker_of(store)._space.listeners.work
    if work.seat is not None:
        return
    until(lambda: store.broker.wait(["silence"], timeout_seconds=0.01) or work.mark is not None)
    store.broker.push([a_push(queue="noise")])
    until(lambda: store.broker.wait(["silence"], timeout_seconds=0.01) or work.seat is not None)
    (told,) = claim(store, "noise")
    store.broker.settle([done(told)], worker=WORKER)


def cut(admin: psycopg.Connection, store: Store) -> None:
    """The connection over which it listens ends, from the server's side."""
    number = broker_of(store)._space.listeners.work.seat
    assert number is not None
    query = "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE query LIKE %s"
    assert admin.execute(query, [f'LISTEN %_{number}"']).fetchall() == [(True,)]


def push_each(store: Store, *names: str) -> None:
    for name in names:
        store.broker.push([a_push(name)])


def broker_of(store: Store) -> PostgresBroker:
    assert isinstance(store.broker, PostgresBroker)
    return store.broker


def standing_of(store: Store) -> Standing:
    return broker_of(store)._standing
