"""Whatever piles up, an SQLite store holds the writers' lock for a moment only, keeps the order, and stays small."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stem.backends.sqlite import connect
from stem.backends.sqlite.broker import SqliteBroker
from stem.backends.sqlite.namespace import SqliteNamespace
from stem.contracts.history import Packed
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter
from stem.core.errors import StoreRefused
from stem.core.lifecycle import State
from stem.core.record import TaskFilter
from stem.core.settings.app import Retention, Settings
from stem.runtime.clock import FakeClock
from support.builders import a_push, dead, done, pushes


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    settings = Settings(retention=Retention(results_seconds=60, events_count=10))
    opened = connect(f"sqlite:///{tmp_path}/stem.db", settings, clock=clock)
    yield opened
    opened.upkeep.close()


def space_of(store: Store) -> SqliteNamespace:
    assert isinstance(store.broker, SqliteBroker)
    return store.broker._namespace


@contextmanager
def statements(store: Store) -> Iterator[list[str]]:
    """What the store's one connection is asked meanwhile."""
    seen: list[str] = []
    with space_of(store).database.bare() as connection:
        connection.set_trace_callback(seen.append)
    yield seen
    with space_of(store).database.bare() as connection:
        connection.set_trace_callback(None)


def test_a_record_saved_over_a_dead_letter_does_not_take_the_letter_away(store: Store, clock: FakeClock) -> None:
    store.broker.push(pushes("a"))
    store.broker.settle([dead(each) for each in store.broker.claim(["default"], limit=1, lease_seconds=60)], worker="w")
    store.results.save(list(store.results.get(["a"]).values()))
    clock.advance(61)
    store.upkeep.prune()
    assert store.deadletters.get("a") is not None
    assert store.deadletters.purge(DeadFilter()) == 1
    store.upkeep.prune()
    assert store.results.get(["a"]) == {}


def test_a_log_of_many_small_writes_is_pruned_by_the_thousand(store: Store) -> None:
    assert isinstance(store.broker, SqliteBroker)
    pruner = store.broker._pruner
    pruner._next_at = float("inf")  # on a slow disk these may take more than a minute
    for _ in range(1100):
        store.broker.push([a_push()])
    pruner._next_at = time.monotonic()  # as if a minute had passed
    store.broker.push([a_push()])
    assert pruner._next_at < time.monotonic() + 30  # there is more: it comes again soon
    assert store.upkeep.prune() == 1101 - 10 - 1000


def test_a_claim_ends_the_expired_in_steps_and_finds_what_is_behind_them(store: Store, clock: FakeClock) -> None:
    store.broker.push([a_push(expires=1) for _ in range(2500)])
    store.broker.push(pushes("good"))
    clock.advance(2)
    with statements(store) as seen:
        claimed = store.broker.claim(["default"], limit=1, lease_seconds=60)
    assert [each.lease.id for each in claimed] == ["good"]
    assert seen.count("COMMIT") == 3
    assert sum("FROM stem_ready AS r" in each for each in seen) < 40
    assert len(store.results.page(TaskFilter(state=State.CANCELLED), limit=5000).items) == 2500


def test_tasks_behind_expired_ones_stay_in_order(store: Store, clock: FakeClock) -> None:
    store.broker.push([a_push("expired", expires=1), *pushes("a", "b", "c")])
    clock.advance(2)
    for id in ("a", "b", "c"):
        assert [each.lease.id for each in store.broker.claim(["default"], limit=1, lease_seconds=60)] == [id]


def test_a_claim_on_many_queues_reads_only_what_it_takes(store: Store) -> None:
    for queue in "abcd":
        store.broker.push([a_push(f"{queue}{n}", queue=queue, priority=n) for n in range(4)])
    with statements(store) as seen:
        claimed = store.broker.claim(list("dcba"), limit=6, lease_seconds=60)
    assert [each.lease.id for each in claimed] == ["a3", "b3", "c3", "d3", "a2", "b2"]
    assert sum("t.body" in each for each in seen) == 1
    assert {queue: each.ready for queue, each in store.broker.depth().items()} == {"a": 2, "b": 2, "c": 3, "d": 3}


def test_priority_counts_among_more_due_tasks_than_one_transaction_makes_ready(store: Store, clock: FakeClock) -> None:
    store.broker.push([a_push(delay=1) for _ in range(5500)])
    store.broker.push([a_push("urgent", delay=2, priority=9)])
    clock.advance(3)
    assert store.broker.claim(["default"], limit=1, lease_seconds=60)[0].lease.id == "urgent"


def test_a_log_that_a_long_reader_let_grow_is_cut_back(store: Store, tmp_path: Path) -> None:
    with space_of(store).database.bare() as connection:
        assert connection.execute("PRAGMA journal_size_limit").fetchone() == (64 * 1024 * 1024,)
        connection.execute("PRAGMA journal_size_limit = 1000000")  # the same rule, in a size that a test can fill
    reader = sqlite3.connect(tmp_path / "stem.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM stem_tasks").fetchall()
    for _ in range(4):
        store.broker.push([a_push(args={"text": "x" * 20_000}) for _ in range(500)])
    grown = os.path.getsize(tmp_path / "stem.db-wal")
    reader.close()
    for _ in range(3):
        store.broker.push([a_push()])
    assert os.path.getsize(tmp_path / "stem.db-wal") < 2_000_000 < grown


def test_an_sqlite_that_is_too_old_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(StoreRefused, match=r"needs 3.35.0; use a newer Python"):
        connect(f"sqlite:///{tmp_path}/old.db", Settings())
    assert not (tmp_path / "old.db").exists()


@pytest.mark.parametrize("limit", [0, -1, -2])
def test_a_page_of_nothing_is_empty_and_the_last(store: Store, limit: int) -> None:
    store.broker.push(pushes("a", "b"))
    store.broker.settle([dead(each) for each in store.broker.claim(["default"], limit=2, lease_seconds=60)], worker="w")
    for page in (store.results.page(TaskFilter(), limit=limit), store.deadletters.page(DeadFilter(), limit=limit)):
        assert page.items == [] and page.cursor is None
    assert store.deadletters.replay(DeadFilter(), limit=limit) == []
    assert store.deadletters.purge(DeadFilter(), limit=limit) == 0


def test_the_last_number_of_a_namespace_is_not_passed(store: Store) -> None:
    with space_of(store).database.writing() as connection:
        connection.execute(
            "INSERT INTO stem_numbers (ns, name, value) VALUES (?, 'seq', ?)", (space_of(store).ns, 2**40 - 2)
        )
    store.broker.push(pushes("last"))
    with pytest.raises(StoreRefused, match="no numbers left for this namespace; use another"):
        store.broker.push(pushes("one-more"))
    (delivery,) = store.broker.claim(["default"], limit=1, lease_seconds=60)
    assert store.broker.settle([done(delivery)], worker="w") == []
    assert set(store.results.get(["last", "one-more"])) == {"last"}


def test_records_too_large_for_one_text_are_read_in_smaller_chunks(store: Store) -> None:
    store.broker.push(pushes(*(f"t{n}" for n in range(20))))
    claimed = store.broker.claim(["default"], limit=20, lease_seconds=60)
    store.broker.settle([done(each, "x" * 1000) for each in claimed], worker="w")
    with space_of(store).database.bare() as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 5000)
    (piece,) = store.history.slices("tasks", count=1)
    chunks = [chunk for chunk in store.history.packed(piece, ["id", "payload"]) if isinstance(chunk, Packed)]
    assert [chunk.count for chunk in chunks] == [4] * 5
    assert "␟".join(str(chunk.columns[0].joined, "utf-8") for chunk in chunks).split("␟") == [
        f"t{n}" for n in range(20)
    ]
