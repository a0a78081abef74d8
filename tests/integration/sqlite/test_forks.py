"""A fork in the middle of everything: what a child pushes is there for all, or it is refused; it never vanishes."""

import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from stem import Stem
from stem.backends import connect
from stem.backends.sqlite.broker import SqliteBroker
from stem.backends.sqlite.connection import pool
from stem.backends.sqlite.connection.database import Database
from stem.contracts.store import Store
from stem.core.settings.app import Settings
from support.background import in_thread, is_waiting
from support.builders import pushes
from support.until import until

OTHER = """
import sys
from stem.backends import connect
from stem.core.settings.app import Settings
store = connect(sys.argv[1], Settings())
print(*sorted(each.id for each in store.broker.peek("default", limit=100)))
store.upkeep.close()
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/stem.db"


def opened(url: str, **settings: float) -> Store:
    return connect(url, Settings(**settings))  # type: ignore[arg-type]


def file_of(store: Store) -> Database:
    assert isinstance(store.broker, SqliteBroker)
    return store.broker._namespace.database


def seen_by_another(url: str) -> set[str]:
    """A process of its own opens the file, looks, and closes it."""
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OTHER, url], capture_output=True, text=True, check=True
    )
    return set(finished.stdout.split())


class Child:
    """A forked process that does one thing at each word."""

    def __init__(self, start: Callable[[], Callable[[], object]]) -> None:
        ours, theirs = multiprocessing.Pipe()
        self._pipe = ours
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            _serve(theirs, start)
        theirs.close()

    def does(self) -> str:
        self._pipe.send("go")
        assert self._pipe.poll(20), "the child says nothing"
        answer: str = self._pipe.recv()
        return answer

    def ends(self) -> None:
        self._pipe.send("")
        os.waitpid(self.pid, 0)
        self._pipe.close()


def _serve(pipe: Connection, start: Callable[[], Callable[[], object]]) -> None:
    try:
        work = start()
        while pipe.recv():
            pipe.send(told(work))
    finally:
        os._exit(0)


def told(work: Callable[[], object]) -> str:
    try:
        work()
    except Exception as error:  # noqa: BLE001 - handed to the parent, which looks at it
        return f"{type(error).__name__}: {error}"
    return "done"


def pushing(store: Store, name: str) -> Callable[[], object]:
    numbers = iter(range(100))
    return lambda: store.broker.push(pushes(f"{name}-{next(numbers)}"))


def check_nothing_is_lost(child: Child, close_parent: Callable[[], None], url: str, *before: str) -> None:
    """The parent closes, a third process opens and closes the file, the child goes on, a fourth looks."""
    assert child.does() == "done"
    close_parent()
    assert seen_by_another(url) == {*before, "child-0"}
    assert child.does() == "done"
    assert seen_by_another(url) == {*before, "child-0", "child-1"}
    child.ends()
    assert seen_by_another(url) == {*before, "child-0", "child-1"}


def test_a_child_goes_on_with_its_parents_store(url: str) -> None:
    store = opened(url)
    store.broker.push(pushes("parent"))
    child = Child(lambda: pushing(store, "child"))
    check_nothing_is_lost(child, store.upkeep.close, url, "parent")


def test_a_child_opens_a_store_of_its_own(url: str) -> None:
    store = opened(url)
    store.broker.push(pushes("parent"))
    child = Child(lambda: pushing(opened(url), "child"))
    check_nothing_is_lost(child, store.upkeep.close, url, "parent")


def test_a_grandchild_of_a_parent_that_is_gone_loses_nothing(url: str) -> None:
    """As a daemon starts: fork, fork, and the first two end."""
    store = opened(url)
    store.broker.push(pushes("parent"))

    def start() -> Callable[[], object]:
        store.broker.push(pushes("between"))
        if os.fork():
            os._exit(0)
        return pushing(store, "child")

    child = Child(start)
    check_nothing_is_lost(child, store.upkeep.close, url, "parent", "between")


def test_an_app_that_forks_loses_nothing(url: str) -> None:
    app = Stem(url)

    @app.task(name="demo.add")
    def add(n: int) -> int:
        return n

    add.options(id="parent").enqueue(1)
    numbers = iter(range(100))
    child = Child(lambda: lambda: add.options(id=f"child-{next(numbers)}").enqueue(1))
    check_nothing_is_lost(child, app.close, url, "parent")


def test_an_app_in_a_process_of_multiprocessing_loses_nothing(url: str) -> None:
    app = Stem(url)

    @app.task(name="demo.add")
    def add(n: int) -> int:
        return n

    context = multiprocessing.get_context("fork")
    words, answers = context.Queue(), context.Queue()

    def serve() -> None:
        while id := words.get(timeout=60):
            answers.put(add.options(id=id).enqueue(1).id)

    add.options(id="parent").enqueue(1)
    process = context.Process(target=serve, daemon=True)
    process.start()
    words.put("child-0")
    assert answers.get(timeout=20) == "child-0"
    app.close()
    assert seen_by_another(url) == {"parent", "child-0"}
    words.put("child-1")
    assert answers.get(timeout=20) == "child-1"
    assert seen_by_another(url) == {"parent", "child-0", "child-1"}
    words.put("")
    process.join(10)


def test_a_fork_waits_for_a_thread_that_writes(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_FORK_SECONDS", 30.0)
    store = opened(url, timeout_seconds=30.0)
    inside = threading.Event()

    def write() -> None:
        with file_of(store).writing() as connection:
            connection.execute("INSERT INTO stem_meta (key, value) VALUES ('slow', 'writer')")
            inside.set()
            time.sleep(0.4)

    writer = in_thread(write)
    assert inside.wait(20)
    child = Child(lambda: pushing(store, "child"))
    writer.result(20)
    check_nothing_is_lost(child, store.upkeep.close, url)


def test_a_fork_does_not_wait_for_those_who_wait(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_FORK_SECONDS", 30.0)
    store = opened(url)
    store.broker.push(pushes("parent"))
    sleeper = in_thread(lambda: store.broker.wait(["other"], timeout_seconds=60))
    assert is_waiting(sleeper)
    began = time.monotonic()
    child = Child(lambda: pushing(store, "child"))
    assert time.monotonic() - began < 15
    assert child.does() == "done"
    store.broker.push(pushes("for-the-sleeper", queue="other"))
    assert sleeper.result(20)
    check_after(child, store, url)


def check_after(child: Child, store: Store, url: str) -> None:
    store.upkeep.close()
    assert seen_by_another(url) == {"parent", "child-0"}
    assert child.does() == "done"
    assert seen_by_another(url) == {"parent", "child-0", "child-1"}
    child.ends()


def test_a_fork_does_not_wait_for_a_thread_that_another_process_locks_out(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_FORK_SECONDS", 30.0)
    store = opened(url, timeout_seconds=60.0)
    store.broker.push(pushes("parent"))
    hold = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('BEGIN IMMEDIATE');"
        "print('held', flush=True); sys.stdin.readline()"
    )
    command = [sys.executable, "-c", hold, str(tmp_path / "stem.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin and holder.stdout and holder.stdout.readline() == "held\n"
        locked_out = in_thread(lambda: store.broker.push(pushes("locked-out")))
        assert is_waiting(locked_out)
        began = time.monotonic()
        child = Child(lambda: pushing(store, "child"))
        assert time.monotonic() - began < 15
        holder.communicate("let go\n", timeout=10)
    assert locked_out.result(60)[0].created
    check_nothing_is_lost(child, store.upkeep.close, url, "parent", "locked-out")


def test_threads_go_on_while_another_forks_and_forks(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_FORK_SECONDS", 30.0)  # a disk may be slow
    store = opened(url, timeout_seconds=60.0)
    is_over = threading.Event()
    pushed: list[str] = []

    def push(thread: int) -> None:
        n = 0
        while not is_over.is_set():
            store.broker.push(pushes(f"{thread}-{n}", queue="many"))
            pushed.append(f"{thread}-{n}")
            n += 1

    threads = [in_thread(lambda thread=thread: push(thread)) for thread in range(3)]  # type: ignore[misc]
    for n in range(10):
        child = os.fork()
        if child == 0:
            os._exit(0 if told(lambda: store.broker.push(pushes(f"child-{n}"))) == "done" else 1)  # noqa: B023
        assert os.waitpid(child, 0)[1] == 0
    is_over.set()
    for thread in threads:
        thread.result(60)
    store.upkeep.close()
    again = opened(url)
    assert again.broker.depth() == depths(again, many=len(pushed), default=10)
    again.upkeep.close()


def depths(store: Store, **ready: int) -> object:
    found = store.broker.depth()
    assert {queue: each.ready for queue, each in found.items()} == ready
    return found


def test_a_child_forked_in_the_middle_of_a_long_write_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_FORK_SECONDS", 0.1)
    store = opened(url)
    with file_of(store).writing():
        same = Child(lambda: pushing(store, "child"))
        anew = Child(lambda: lambda: opened(url))
    for child in (same, anew):
        answer = child.does()
        assert answer.startswith("StoreRefused") and "use" in answer and "spawn" in answer
        child.ends()
    store.broker.push(pushes("parent"))
    store.upkeep.close()
    assert seen_by_another(url) == {"parent"}


def test_a_child_is_refused_while_a_connection_of_the_caller_is_inherited(url: str, tmp_path: Path) -> None:
    store = opened(url)
    mine = sqlite3.connect(tmp_path / "stem.db")
    mine.execute("SELECT count(*) FROM stem_tasks").fetchall()

    def close_first() -> None:
        mine.close()
        store.broker.push(pushes("child"))

    works: list[Callable[[], object]] = [
        lambda: store.broker.push(pushes("lost")),
        lambda: store.broker.push(pushes("lost-too"), connection=mine),
        close_first,
    ]
    child = Child(lambda: lambda: works.pop(0)())
    assert child.does().startswith("StoreRefused")
    assert child.does().startswith("StoreRefused")
    assert child.does() == "done"
    mine.close()
    store.upkeep.close()
    child.ends()
    assert seen_by_another(url) == {"child"}


def test_a_fork_that_told_nobody_is_refused_and_not_lost(url: str) -> None:
    """As a server written in C forks: without Python's hooks."""
    script = f"""
import ctypes, os, sys
from stem.backends import connect
from stem.core.settings.app import Settings
from stem.core.errors import StoreRefused
from support.builders import pushes
store = connect({url!r}, Settings())
store.broker.push(pushes("parent"))
pid = ctypes.PyDLL(None).fork()
if pid == 0:
    try:
        store.broker.push(pushes("child"))
    except StoreRefused as error:
        print(error, flush=True)
    store.upkeep.close()
    os._exit(0)
os.waitpid(pid, 0)
store.broker.push(pushes("parent-again"))
"""
    finished = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ, PYTHONPATH=str(Path(__file__).parents[2])),
    )
    assert "in use when this process was forked" in finished.stdout
    assert seen_by_another(url) == {"parent", "parent-again"}


def test_a_commit_by_a_connection_that_rings_no_bell_wakes_soon(url: str, tmp_path: Path) -> None:
    store = opened(url)
    mine = sqlite3.connect(tmp_path / "stem.db")
    delays = []
    for n in range(8):
        waiter = in_thread(lambda: (store.broker.wait(["default"], timeout_seconds=20), time.monotonic()))
        folder = Path(f"{tmp_path}/stem.db-bell")
        until(lambda: folder.exists() and os.listdir(folder))  # noqa: B023
        with mine:
            store.broker.push(pushes(f"t{n}"), connection=mine)
            time.sleep(0.02 * n)  # the longer the transaction is open, the further its writes and its commit are apart
        committed = time.monotonic()
        found, at = waiter.result(20)
        assert found
        delays.append(at - committed)
        store.broker.claim(["default"], limit=1, lease_seconds=60)
    assert max(delays) < 5 and sorted(delays)[2] < 0.1, delays
    mine.close()
    store.upkeep.close()
