"""The doorbell beside the file: who waits is woken at once, costs next to nothing, and leaves nothing behind."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stem.backends import connect
from stem.backends.sqlite import namespace
from stem.backends.sqlite.connection.doorbell import Doorbell
from stem.contracts.store import Store
from stem.core.settings.app import Settings
from support.background import in_thread, is_waiting, takes_less_than
from support.builders import a_push, pushes
from support.until import until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stem.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened = connect(f"sqlite:///{path}", Settings())
    yield opened
    opened.upkeep.close()


def ears(path: Path) -> list[str]:
    folder = Path(f"{path}-bell")
    return os.listdir(folder) if folder.exists() else []


def test_a_push_wakes_within_milliseconds(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for look in ("_POLL_SECONDS", "_LOOK_SECONDS"):
        monkeypatch.setattr(namespace, look, 20.0)  # so that it is the bell that wakes
    delays = []
    for n in range(15):
        waiter = in_thread(lambda: (store.broker.wait(["default"], timeout_seconds=60), time.monotonic()))
        until(lambda: ears(path))
        store.broker.push(pushes(f"t{n}"))
        rung = time.monotonic()
        found, at = waiter.result(60)
        assert found
        delays.append(at - rung)
        store.broker.claim(["default"], limit=1, lease_seconds=60)
    assert max(delays) < 10 and min(delays) < 0.02, delays


def test_a_ring_for_another_queue_lets_it_sleep_on(store: Store, path: Path) -> None:
    waiter = in_thread(lambda: store.broker.wait(["default"], timeout_seconds=10))
    until(lambda: ears(path))
    store.broker.push(pushes("a", queue="other"))
    assert is_waiting(waiter)
    store.broker.push(pushes("b"))
    assert waiter.result(10)


def test_a_waiter_for_another_topic_is_not_woken(path: Path) -> None:
    path.touch()
    bell = Doorbell(path)
    with bell.listening(["1:channel:news"]) as other, bell.listening(["1:done"]) as meant:
        bell.ring(["1:done", "1:events"])
        assert meant.sleep(5, frozenset({"1:done"}))
        assert not other.sleep(0.01, frozenset({"1:done"}))  # it would have heard it, had it been told
        bell.ring(["2:channel:news"])
        assert not other.sleep(0.01, frozenset({"2:channel:news"}))
        bell.ring(["1:channel:other"])
        assert other.sleep(5, frozenset({"1:channel:other"}))  # of its kind: told, whichever it is


def test_an_idle_wait_uses_less_than_a_hundredth_of_a_core(store: Store) -> None:
    def spends() -> float:
        before = time.process_time()
        assert not store.broker.wait(["a", "b", "c"], timeout_seconds=2)
        return time.process_time() - before

    takes_less_than(0.02, spends, tries=3)


def test_a_waiter_removes_its_socket(store: Store, path: Path) -> None:
    store.broker.wait(["default"], timeout_seconds=0.05)
    assert ears(path) == []


def test_the_sockets_of_the_killed_are_cleared_by_the_next_ring(store: Store, path: Path) -> None:
    child = os.fork()
    if child == 0:
        with Doorbell(path).listening([]):
            os._exit(0)  # as a kill would: nothing is cleaned up
    os.waitpid(child, 0)
    (left,) = ears(path)
    long_ago = time.time() - 60
    os.utime(f"{path}-bell/{left}", (long_ago, long_ago))
    store.broker.push([a_push()])
    assert ears(path) == []


def test_a_path_too_long_for_a_socket_is_rung_all_the_same(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 20) / ("longer" * 20)
    folder.mkdir(parents=True)
    store = connect(f"sqlite:///{folder}/stem.db", Settings())
    waiter = in_thread(lambda: store.broker.wait(["default"], timeout_seconds=10))
    until(lambda: ears(folder / "stem.db"))
    store.broker.push([a_push()])
    assert waiter.result(10)
    store.upkeep.close()


def test_without_a_place_for_a_bell_a_look_now_and_then_does(store: Store, path: Path) -> None:
    Path(f"{path}-bell").write_text("in the way")
    waiter = in_thread(lambda: store.broker.wait(["default"], timeout_seconds=40))
    assert is_waiting(waiter)
    store.broker.push([a_push()])
    assert waiter.result(20)


def test_closing_sends_sleepers_home(path: Path) -> None:
    store = connect(f"sqlite:///{path}", Settings())
    waiter = in_thread(lambda: store.broker.wait(["default"], timeout_seconds=60))
    until(lambda: ears(path))
    store.upkeep.close()
    assert waiter.result(20) is False
    assert ears(path) == []
