"""A push hands its task to a worker that waits: to one that lives, once, and what is not heard of is asked for."""

import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest

from stem.backends import connect
from stem.backends.postgres import bell, standing
from stem.backends.postgres.broker import PostgresBroker
from stem.backends.postgres.ear import Ear
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
    sits(store)
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


def test_what_is_heard_of_so_late_that_its_lease_may_be_over_is_leased_anew(
    store: Store, other: Store, admin: psycopg.Connection, namespace: str
) -> None:
    sits(store, lease=4.0)
    other.broker.push([a_push("a")])
    let_time_pass(store, 1.1)
    assert stands_by(store, lease=4.0)
    assert ids(claim(store)) == ["a"]
    query = "SELECT leased_until - enqueued_at FROM stem.messages WHERE ns = %s"
    ((seconds,),) = admin.execute(query, [namespace]).fetchall()
    assert seconds > 5.0


def test_what_was_given_to_a_seat_is_known_though_others_found_it_empty(
    store: Store, other: Store, admin: psycopg.Connection
) -> None:
    sits(store)
    other.broker.push([a_push("a")])
    cut(admin, store)
    push_each(other, "b", "c")
    assert ids(claim(other)) == ["b", "c"]
    assert until(lambda: stands_by(store))
    assert ids(claim(store)) == ["a"]


def test_what_is_asked_for_takes_room(store: Store, other: Store, seats: "Seats") -> None:
    sits(store, room=3, lease=4.0)
    other.broker.push([a_push("a")])
    let_time_pass(store, 1.1)  # so that it is asked for
    assert stands_by(store, room=3, lease=4.0)
    assert seats.all() == [(2, ["default"])]


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
    link = broker_of(store)._space.link
    cells = link.cells

    def unanswered(asked: Statement, **more: Any) -> None:
        cells(asked, **more)
        raise StoreUnavailable("no answer by the deadline")

    with monkeypatch.context() as patch:
        patch.setattr(link, "cells", unanswered)
        assert store.broker.stand_down() == []
    found += ids(store.broker.stand_down())
    assert found == ["a"]
    sits(store)
    assert claim(store) == []


def test_an_ear_that_has_missed_something_is_replaced(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose connection has silently died, which the server does not know."""
    sits(store)
    deaf = ear_of(store)
    monkeypatch.setattr(deaf, "hear", lambda seconds: (threading.Event().wait(min(seconds, 0.01)) and []) or [])
    other.broker.push([a_push("a")])
    let_time_pass(store, 1.1)
    assert until(lambda: stands_by(store, room=1))
    assert ids(claim(store)) == ["a"]
    until(lambda: ear_of(store) not in (deaf, None))
    sits(store)
    other.broker.push([a_push("b")])
    assert stands_by(store)
    assert ids(claim(store)) == ["b"]


def test_who_finds_his_seat_taken_hold_of_goes_on_without_it(
    store: Store, other: Store, admin: psycopg.Connection, namespace: str
) -> None:
    """A push may have to wait for another with the same id."""
    sits(store, room=2)
    with admin.transaction():
        admin.execute("SELECT FROM stem.seats WHERE ns = %s FOR UPDATE", [namespace])
        other.broker.push([a_push("a"), a_push("b")])
        assert stands_by(store, room=1, seconds=20)
        assert ids(claim(store)) == ["a", "b"]
        assert store.broker.stand_down() == []
    until(lambda: store.broker.stand_down() == [] and standing_of(store)._seat is None)


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


def test_where_nobody_hears_what_is_said_to_him_alone_nobody_sits(
    store: Store, other: Store, seats: "Seats", monkeypatch: pytest.MonkeyPatch
) -> None:
    """As through a pooler that shares connections."""
    monkeypatch.setattr(standing, "NOTIFY", "SELECT %s::text[], %s::text[]")
    until(lambda: not stands_by(store) and (ear := ear_of(store)) is not None and ear.is_deaf)
    other.broker.push([a_push("a")])
    assert stands_by(store)
    assert (seats.count(), depth(other).ready) == (0, 1)
    broker_of(store)._space.listeners.work.renew()
    until(lambda: stands_by(store) and (ear := ear_of(store)) is not None and ear.seat is None)


def test_a_worker_whose_connection_is_gone_is_handed_nothing(
    store: Store, other: Store, admin: psycopg.Connection, seats: "Seats"
) -> None:
    sits(store)
    cut(admin, store)
    other.broker.push([a_push("a")])
    assert seats.all() == [(0, ["default"])]
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


def test_where_old_versions_pile_up_nobody_sits(store: Store, admin: psycopg.Connection) -> None:
    """As while a transaction stays open: a push would have to look at them all."""
    admin.execute("INSERT INTO stem.seats SELECT 'bulk', n, 0, 0, 0, '{}', '{}' FROM generate_series(1, 10000) n")
    try:
        until(lambda: not stands_by(store) and standing_of(store)._not_before > monotonic())
        assert standing_of(store)._seat is None
    finally:
        admin.execute("TRUNCATE stem.seats")


def test_a_role_that_may_use_the_tables_may_push_after_the_upgrade(
    postgres_server: PostgresServer, admin: psycopg.Connection, namespace: str
) -> None:
    schema, role = f"older_{namespace}", f"guest_{namespace}"
    url = f"{postgres_server.url}&schema={schema}"
    connect(url, Settings()).upkeep.close()
    admin.execute(f"CREATE ROLE {role} LOGIN".encode())
    try:
        for kind in (f"SCHEMA {schema}", f"ALL TABLES IN SCHEMA {schema}", f"ALL SEQUENCES IN SCHEMA {schema}"):
            admin.execute(f"GRANT ALL ON {kind} TO {role}".encode())
        admin.execute(f"DROP TABLE {schema}.seats; UPDATE {schema}.version SET version = 10".encode())
        connect(url, Settings()).upkeep.close()
        guest = connect(url.replace("postgres:@", f"{role}:@"), Settings())
        assert guest.broker.push([a_push("a")])[0].created
        guest.upkeep.close()
    finally:
        admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}; DROP SCHEMA {schema} CASCADE".encode())


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
    assert [free for free, _ in seats.all()] == [0]  # of what he was told, he has not said that he knows it


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
        assert not stands_by(store, room=room, lease=lease)
        return standing_of(store)._seat is not None

    until(is_seated)


def cut(admin: psycopg.Connection, store: Store) -> None:
    """The connection over which it listens ends, from the server's side."""
    ear = ear_of(store)
    assert ear is not None
    query = "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE query = %s"
    assert admin.execute(query, [f'LISTEN "{ear.channel}"']).fetchall() == [(True,)]


def push_each(store: Store, *names: str) -> None:
    for name in names:
        store.broker.push([a_push(name)])


def ear_of(store: Store) -> Ear | None:
    return broker_of(store)._space.listeners.work.ear


def broker_of(store: Store) -> PostgresBroker:
    assert isinstance(store.broker, PostgresBroker)
    return store.broker


def standing_of(store: Store) -> Standing:
    return broker_of(store)._standing
