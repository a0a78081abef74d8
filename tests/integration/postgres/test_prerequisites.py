"""Tasks that wait for others on Postgres, while many processes end, add and cancel what they wait for."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter
from stem.core.errors import StoreRefused
from stem.core.lifecycle import EventKind, State
from stem.core.record import TaskError
from stem.core.settings.app import Settings
from support.builders import a_join, a_push, dead, done
from support.servers import PostgresServer
from support.stores.calls import WORKER, claim, depth, ids, record, state

MEMBERS, JOINS, SETTLERS = 400, 20, 8


@pytest.fixture
def crowded(postgres_server: PostgresServer, namespace: str) -> Iterator[Store]:
    store = connect(postgres_server.url, Settings(namespace=namespace, timeout_seconds=60))
    yield store
    store.upkeep.close()


def at_once(*calls: Callable[[], object]) -> None:
    with ThreadPoolExecutor(len(calls)) as threads:
        for each in [threads.submit(call) for call in calls]:
            each.result()


def joined(store: Store) -> list[str]:
    events, cursor = [], None
    while page := store.events.read(cursor, limit=1000):
        events += page
        cursor = page[-1].offset
    return [event.task_id for event in events if event.kind is EventKind.JOINED]


def test_every_join_ends_once_while_its_members_end_and_others_begin_to_wait_for_them(crowded: Store) -> None:
    members = [f"m{number:03}" for number in range(MEMBERS)]
    crowded.broker.push([a_push(id) for id in members])
    crowded.broker.push([a_join(f"j{number:02}", *members[number::JOINS]) for number in range(JOINS)])
    claimed = claim(crowded, limit=MEMBERS)
    late = [f"k{number:02}" for number in range(40)]

    def settle(mine: int) -> None:
        held = claimed[mine::SETTLERS]
        for place in range(0, len(held), 5):
            assert crowded.broker.settle([done(each) for each in held[place : place + 5]], worker=WORKER) == []

    def add(mine: int) -> None:
        for number in range(mine, len(late), 2):
            crowded.broker.push([a_join(late[number], *members[number::3])])

    at_once(*[lambda n=n: settle(n) for n in range(SETTLERS)], *[lambda n=n: add(n) for n in range(2)])
    assert sorted(joined(crowded)) == sorted([*late, *(f"j{number:02}" for number in range(JOINS))])
    assert (depth(crowded).blocked, depth(crowded).running) == (0, 0)


def test_failures_replays_and_successes_at_the_same_time_leave_nobody_behind(crowded: Store) -> None:
    members = [f"m{number:02}" for number in range(60)]
    crowded.broker.push([a_push(id) for id in members])
    crowded.broker.push([a_join(f"j{number}", *members[number::5]) for number in range(5)])
    crowded.broker.push([a_push("last", after=[f"j{number}" for number in range(5)])])
    claimed = claim(crowded, limit=60)

    def settle(mine: int) -> None:
        for place, each in enumerate(claimed[mine::4]):
            assert crowded.broker.settle([dead(each) if place % 5 == 4 else done(each)], worker=WORKER) == []

    at_once(*[lambda n=n: settle(n) for n in range(4)])
    assert state(crowded, "last") is State.CANCELLED
    assert depth(crowded).blocked == 0
    crowded.deadletters.replay(DeadFilter())
    again = claim(crowded, limit=60)

    def mend(mine: int) -> None:
        for each in again[mine::4]:
            assert crowded.broker.settle([done(each)], worker=WORKER) == []

    at_once(*[lambda n=n: mend(n) for n in range(4)])
    assert sorted(joined(crowded)) == [f"j{number}" for number in range(5)]
    assert ids(claim(crowded)) == ["last"]


def test_one_that_waits_in_an_open_transaction_is_released_after_its_commit(
    crowded: Store, postgres_server: PostgresServer
) -> None:
    crowded.broker.push([a_push("a")])
    (a,) = claim(crowded)
    with psycopg.connect(postgres_server.url) as connection, ThreadPoolExecutor(1) as thread:
        crowded.broker.push([a_push("b", after=["a"])], connection=connection)
        settling = thread.submit(crowded.broker.settle, [done(a)], worker=WORKER)
        connection.commit()
        assert settling.result() == []
    assert ids(claim(crowded)) == ["b"]


def test_a_refusal_leaves_the_caller_s_transaction_usable(crowded: Store, postgres_server: PostgresServer) -> None:
    with psycopg.connect(postgres_server.url) as connection:
        with pytest.raises(StoreRefused, match="There is no task ghost"):
            crowded.broker.push([a_push("b", after=["ghost"])], connection=connection)
        crowded.broker.push([a_push("c")], connection=connection)
        connection.commit()
    assert ids(claim(crowded)) == ["c"]


def test_an_error_that_cannot_be_read_by_the_server_cancels_what_waits_as_any_other(crowded: Store) -> None:
    crowded.broker.push([a_push("a"), a_push("b", after=["a"])])
    (a,) = claim(crowded)
    crowded.broker.settle([dead(a, error=TaskError("Odd", "zero \x00"))], worker=WORKER)
    assert (state(crowded, "b"), record(crowded, "b").error) == (
        State.CANCELLED,
        TaskError("PrerequisiteFailed", "a (demo.add) failed: an error that cannot be read"),
    )
