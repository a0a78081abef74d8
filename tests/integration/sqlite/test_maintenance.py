"""What keeps an SQLite store small, honest and safe to share."""

import os
import sqlite3
import time
from functools import partial
from pathlib import Path

from stem.backends.sqlite import connect
from stem.backends.sqlite.broker import SqliteBroker
from stem.backends.sqlite.pruning import Pruner
from stem.contracts.store import Store
from stem.core.settings.app import Retention, Settings
from stem.runtime.clock import FakeClock
from support.background import together
from support.builders import a_push, done, pushes


def opened(path: Path, clock: FakeClock, **retention: float) -> Store:
    settings = Settings(timeout_seconds=60.0, retention=Retention(**retention))  # type: ignore[arg-type]
    return connect(f"sqlite:///{path}/stem.db", settings, clock=clock)


def run_one(store: Store, id: str) -> None:
    """Or another's task, where many run at once."""
    store.broker.push(pushes(id))
    (delivery,) = store.broker.claim(["default"], limit=1, lease_seconds=60)
    store.broker.settle([done(delivery)], worker="w")


def test_old_rows_go_with_the_next_write_though_nobody_prunes(tmp_path: Path) -> None:
    clock = FakeClock()
    store = opened(tmp_path, clock, results_seconds=60, events_seconds=60)
    run_one(store, "old")
    clock.advance(61)
    assert isinstance(store.broker, SqliteBroker)
    pruner: Pruner = store.broker._pruner
    pruner._next_at = time.monotonic()  # as if a minute had passed
    store.broker.push(pushes("new"))
    assert set(store.results.get(["old", "new"])) == {"new"}
    assert [event.task_id for event in store.events.read(None, limit=9)] == ["new"]
    assert pruner._next_at > time.monotonic() + 30  # not with every write
    store.upkeep.close()


def test_pruning_goes_in_steps_that_end_with_zero(tmp_path: Path) -> None:
    clock = FakeClock()
    store = opened(tmp_path, clock, results_seconds=60, events_count=10)
    for _ in range(3):
        store.broker.push([a_push() for _ in range(1000)])
        deliveries = store.broker.claim(["default"], limit=1000, lease_seconds=60)
        store.broker.settle([done(each) for each in deliveries], worker="w")
    clock.advance(61)
    steps = []
    while pruned := store.upkeep.prune():
        steps.append(pruned)
    assert sum(steps) == 3000 + 9000 - 10
    assert max(steps) < 6000
    assert len(store.events.read(None, limit=99)) == 10
    store.upkeep.close()


def test_a_log_cut_within_a_row_keeps_its_offsets(tmp_path: Path) -> None:
    store = opened(tmp_path, FakeClock(), events_count=5)
    store.broker.push(pushes(*(f"t{n}" for n in range(12))))
    assert store.upkeep.prune() == 7
    assert [(e.offset, e.task_id) for e in store.events.read("9", limit=2)] == [("10", "t9"), ("11", "t10")]
    assert store.events.read(None, limit=1)[0].task_id == "t7"
    assert store.events.head() == "12"
    store.upkeep.close()


def test_a_write_and_its_ring_survive_a_fork(tmp_path: Path) -> None:
    store = opened(tmp_path, FakeClock())
    store.broker.push(pushes("parent"))
    child = os.fork()
    if child == 0:
        is_good = store.broker.push(pushes("child"))[0].created
        os._exit(0 if is_good else 1)
    assert os.waitpid(child, 0)[1] == 0
    store.broker.push(pushes("parent-again"))
    assert store.broker.depth()["default"].ready == 3
    store.upkeep.close()


def test_threads_share_a_store(tmp_path: Path) -> None:
    store = opened(tmp_path, FakeClock())

    def run_ten(thread: int) -> None:
        for n in range(10):
            run_one(store, f"{thread}-{n}")

    together([partial(run_ten, thread) for thread in range(8)])
    assert store.broker.depth() == {}
    assert len(store.events.read(None, limit=999)) == 8 * 10 * 3
    store.upkeep.close()


def test_a_store_says_how_safe_its_writes_are(tmp_path: Path) -> None:
    full = connect(f"sqlite:///{tmp_path}/stem.db", Settings())
    normal = connect(f"sqlite:///{tmp_path}/stem.db?synchronous=normal", Settings())
    assert full.upkeep.diagnose().warnings == []
    assert "power cut" in normal.upkeep.diagnose().warnings[0]
    full.upkeep.close()
    normal.upkeep.close()


def test_a_file_without_the_write_ahead_log_works_and_says_so(tmp_path: Path) -> None:
    connect(f"sqlite:///{tmp_path}/stem.db", Settings()).upkeep.close()
    connection = sqlite3.connect(tmp_path / "stem.db")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    store = connect(f"sqlite:///{tmp_path}/stem.db", Settings())
    run_one(store, "a")
    assert "journal mode is delete" in store.upkeep.diagnose().warnings[0]
    store.upkeep.close()


def test_closing_leaves_one_file_and_the_bells_folder(tmp_path: Path) -> None:
    store = connect(f"sqlite:///{tmp_path}/stem.db", Settings())
    run_one(store, "a")
    store.broker.wait(["default"], timeout_seconds=0.01)
    store.upkeep.close()
    store.upkeep.close()
    assert sorted(os.listdir(tmp_path)) == ["stem.db", "stem.db-bell"]
