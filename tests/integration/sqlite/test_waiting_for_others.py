"""Tasks that wait for others cost an SQLite store little, plain tasks nothing, and nothing of them is left behind."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from stem.backends.sqlite import connect
from stem.backends.sqlite.broker import SqliteBroker
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter
from stem.core.envelope import Supersedes, Unique
from stem.core.errors import StoreRefused
from stem.core.settings.app import Retention, Settings
from stem.runtime.clock import FakeClock
from support.builders import a_join, a_push, dead, done, pushes, requeue
from support.stores.graphs import counts, fail, states, succeed, take

TABLES = ("stem_tasks", "stem_edges", "stem_blocked", "stem_cascades", "stem_steps", "stem_event_waits")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    settings = Settings(retention=Retention(results_seconds=3600))
    opened = connect(f"sqlite:///{tmp_path}/stem.db", settings, clock=clock)
    yield opened
    opened.upkeep.close()


@contextmanager
def statements(store: Store) -> Iterator[list[str]]:
    """What the store's one connection is asked meanwhile."""
    assert isinstance(store.broker, SqliteBroker)
    database = store.broker._namespace.database
    seen: list[str] = []
    with database.bare() as connection:
        connection.set_trace_callback(seen.append)
    yield seen
    with database.bare() as connection:
        connection.set_trace_callback(None)


def rows(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as connection:
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}


def prune_all(store: Store) -> None:
    while store.upkeep.prune():
        pass


def test_plain_tasks_are_pushed_and_settled_without_a_look_at_those_that_wait(store: Store) -> None:
    store.broker.push([*pushes("m"), a_push("waits", after=["m"], queue="other")])
    with statements(store) as seen:
        store.broker.push(pushes("a", "b", queue="plain"))
        for each in store.broker.claim(["plain"], limit=2, lease_seconds=60):
            store.broker.settle([done(each)], worker="w")
    assert not [each for each in seen if "stem_edges" in each or "stem_blocked" in each]


def test_a_batch_of_members_lowers_the_count_once(store: Store) -> None:
    members = [f"m{n}" for n in range(100)]
    store.broker.push([*pushes(*members), a_join("j", *members, "m0")])
    held = take(store, *members)
    with statements(store) as seen:
        store.broker.settle([done(each) for each in held[:60]], worker="w")
    assert sum("UPDATE stem_blocked" in each for each in seen) == 1
    store.broker.settle([done(each) for each in held[60:]], worker="w")
    assert states(store, "j") == ["succeeded"]


def test_reclaim_takes_the_writers_lock_only_if_something_is_left_to_cancel(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stem.backends.sqlite.tasks.cascading.CASCADE_LIMIT", 3)
    store.broker.push([a_push("a"), *(a_push(f"w{n}", after=["a"]) for n in range(7)), a_push("end", after=["w6"])])
    fail(store, "a")
    assert counts(store) == (0, 0, 0, 1, 5)
    for blocked in (2, 0):
        store.broker.reclaim(grace_seconds=3600)
        assert counts(store) == (0, 0, 0, 1, blocked)
    with statements(store) as seen:
        store.broker.reclaim()
    assert not [each for each in seen if "IMMEDIATE" in each]


def test_records_that_are_still_needed_do_not_hold_up_the_pruning_of_others(store: Store, clock: FakeClock) -> None:
    members = [f"m{n}" for n in range(2500)]
    store.broker.push([*pushes(*members), a_push("waits", after=[*members, "m0"], delay=86400)])
    while held := store.broker.claim(["default"], limit=1000, lease_seconds=60):
        store.broker.settle([done(each) for each in held], worker="w")
    store.broker.push(pushes("plain"))
    succeed(store, "plain")
    clock.advance(3601)
    assert store.upkeep.prune() > 0
    prune_all(store)
    assert store.results.get(["plain", "m0", "m2499"], past_retention=True).keys() == {"m0", "m2499"}
    assert store.results.get(["m0"]) == {}
    store.broker.cancel(["waits"])
    clock.advance(601)
    prune_all(store)
    assert store.results.get(members, past_retention=True) == {}


def test_nothing_of_a_graph_is_left_when_its_records_have_gone(store: Store, clock: FakeClock, tmp_path: Path) -> None:
    store.broker.push(
        [*pushes("a", "b"), a_join("j", "a", "b"), a_push("c", after=["j", "b"]), a_push("d", after=["b"])]
    )
    a, b = take(store, "a", "b")
    store.steps.record(a.lease, "charged", msgspec.Raw(b"1"))
    store.broker.settle([requeue(a, 60, event="paid"), done(b)], worker="w")
    store.steps.send("a", "paid", msgspec.Raw(b"2"))
    a, d = take(store, "a", "d")
    store.broker.settle([dead(a), done(d)], worker="w")
    assert states(store, "j", "c") == ["cancelled", "cancelled"]
    store.deadletters.purge(DeadFilter())
    clock.advance(3601)
    prune_all(store)
    clock.advance(601)
    prune_all(store)
    assert rows(tmp_path / "stem.db") == dict.fromkeys(TABLES, 0)


def test_a_caller_that_rolls_back_leaves_no_wait_behind(store: Store, tmp_path: Path) -> None:
    store.broker.push(pushes("a"))
    with closing(sqlite3.connect(tmp_path / "stem.db")) as own:
        own.execute("CREATE TABLE orders (id)")
        own.execute("INSERT INTO orders VALUES (1)")
        store.broker.push([a_push("b", after=["a"])], connection=own)
        with pytest.raises(StoreRefused, match="ghost"):
            store.broker.push([a_push("c", after=["a", "ghost"])], connection=own)
        own.rollback()
        own.execute("INSERT INTO orders VALUES (2)")
        store.broker.push([a_push("d", after=["a"])], connection=own)
        own.commit()
    assert rows(tmp_path / "stem.db")["stem_edges"] == 1
    succeed(store, "a")
    succeed(store, "d")
    assert store.results.get(["b", "c"]) == {}


def test_a_superseded_task_is_found_where_it_was_delayed(store: Store) -> None:
    key = Unique("k", supersedes=Supersedes.WAITING)
    store.broker.push([a_push(f"later{n}", delay=60) for n in range(20)])
    store.broker.push([a_push("a", delay=60, unique=key)])
    with statements(store) as seen:
        (receipt,) = store.broker.push([a_push("b", delay=60, unique=key)])
    assert receipt.superseded == "a"
    assert not [each for each in seen if "DELETE FROM stem_delayed" in each and "json_each" in each]
