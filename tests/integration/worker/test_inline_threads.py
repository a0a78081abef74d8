"""Tasks that are not isolated share one process, and keep nobody from anything; a worker may also live in its caller's."""

import os
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from stem import SoftTimeLimitExceeded, Stem, TaskContext
from stem.core.lifecycle import State
from stem.worker.supervisor import Worker
from support.until import until
from support.workers.processes import Desk, desk, worker_here, worker_process

INLINE = "support.worker_apps.inline:app"
THREADED = "support.worker_apps.threaded:app"
ISOLATES = 2
_names = count(1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lane")


@pytest.fixture(scope="module")
def worker(place: Path) -> Iterator[Worker]:
    with worker_here(f"sqlite:///{place}/stem.db", "lane", INLINE, concurrency=ISOLATES, lease_seconds=5.0) as it:
        yield it


@pytest.fixture
def client(place: Path, worker: Worker) -> Iterator[Desk]:
    """After the test a task in each isolate, all at the same time, answers."""
    with desk(f"sqlite:///{place}/stem.db", "lane") as opened:
        yield opened
        opened.meet(place, ISOLATES)


def test_inline_tasks_run_in_one_process_beside_the_supervisor(client: Desk) -> None:
    tasks = [client.send("where") for _ in range(30)]
    pids = {client.value(task)[0] for task in tasks} | {client.call("where-async")}
    assert len(pids) == 1
    assert not pids & {os.getpid(), *(client.call("isolated") for _ in range(10))}


def test_inline_tasks_run_at_the_same_time(client: Desk, tmp_path: Path) -> None:
    marks, go = tmp_path / "marks", tmp_path / "go"
    tasks = [client.send("waits-for", marks=str(marks), file=str(go)) for _ in range(6)]
    until(lambda: marks.exists() and len(marks.read_text().split()) == 6)
    assert client.call("isolated") > 0  # they take no isolate's place
    go.touch()
    assert [client.value(task) for task in tasks] == [0] * 6


def test_an_inline_task_speaks_through_its_context(client: Desk) -> None:
    task = client.send("reports")
    child = client.value(task)
    assert client.record(task).meta["progress"]["message"] == "half"
    assert client.ended(child).meta["parentId"] == task


def test_an_inline_task_that_keeps_the_interpreters_lock_delays_neither_leases_nor_heartbeats(
    durable_url: str, namespace: str, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    options = {"concurrency": ISOLATES, "lease_seconds": 3.0, "heartbeat_seconds": 0.3, "reclaim_seconds": 0.3}
    with desk(durable_url, namespace) as client, worker_here(durable_url, namespace, INLINE, **options):
        store = client.app.store
        task = client.send("keeps-the-lock", file=str(marks), seconds=4)
        until(marks.exists)
        beats, served = set[float](), 0
        while True:
            client.value(client.send("isolated"))
            beats |= {pulse.heartbeat.uptime_seconds for pulse in store.heartbeats.all()}
            assert store.broker.reclaim().returned == []
            if client.record(task).is_terminal:
                break
            served += 1  # while the lock was kept
        assert served > 1 and len(beats) > 2
        assert client.record(task).state is State.SUCCEEDED
        assert client.kinds(task) == ["enqueued", "started", "succeeded"]


def test_a_soft_limit_reaches_an_inline_task(client: Desk) -> None:
    assert client.call("gives-what-it-has") == "in part"
    record = client.ended(client.send("sleeps", {"soft_limit": 0.2, "max_retries": 0}, seconds=30))
    assert record.error is not None and record.error.type == "stem.core.errors.SoftTimeLimitExceeded"


def test_inline_tasks_have_a_limit_of_their_own(tmp_path: Path, namespace: str) -> None:
    url, marks, go = f"sqlite:///{tmp_path}/stem.db", tmp_path / "marks", tmp_path / "go"
    with desk(url, namespace) as client, worker_here(url, namespace, INLINE, concurrency=4, lane_concurrency=2):
        tasks = [client.send("waits-for", marks=str(marks), file=str(go)) for _ in range(4)]
        until(lambda: marks.exists() and len(marks.read_text().split()) == 2)
        assert client.call("isolated") > 0, "it is beside them, and all that could begin has had the time to"
        assert len(marks.read_text().split()) == 2
        go.touch()
        assert [client.value(task) for task in tasks] == [0] * 4


@pytest.mark.parametrize(
    ("name", "args", "is_stuck"), [("spins", {}, False), ("keeps-the-lock", {"seconds": 600}, True)]
)
def test_a_hard_limit_ends_the_lane_only_if_it_has_to_and_costs_its_neighbours_no_attempt(
    client: Desk, tmp_path: Path, name: str, args: dict[str, Any], is_stuck: bool
) -> None:
    marks, go = tmp_path / "marks", tmp_path / "go"
    before = client.call("where")[0]
    neighbours = [client.send("waits-for", marks=str(marks), file=str(go)) for _ in range(3)]
    until(lambda: marks.exists() and len(marks.read_text().split()) == 3)
    given = {"file": str(tmp_path / "locked"), **args} if is_stuck else args
    record = client.ended(client.send(name, {"hard_limit": 0.3, "max_retries": 0}, **given))
    assert record.error is not None and record.error.type == "HardTimeLimitExceeded"
    go.touch()
    assert [client.value(neighbour) for neighbour in neighbours] == [0] * 3
    assert (client.call("where")[0] != before) == is_stuck
    assert {client.kinds(neighbour).count("requeued") for neighbour in neighbours} == {int(is_stuck)}


def test_a_crash_in_the_lane_is_pinned_on_whoever_causes_it(client: Desk, tmp_path: Path) -> None:
    marks, go = tmp_path / "marks", tmp_path / "go"
    culprit = client.send("exits", marks=str(marks), when=str(go))
    others = [client.send("waits-for", marks=str(marks), file=str(go)) for _ in range(4)]
    until(lambda: marks.exists() and len(set(marks.read_text().split())) == 5)
    go.touch()
    assert client.ended(culprit).state is State.FAILED
    assert client.letter(culprit).reason == "crash-loop"
    assert [client.value(other) for other in others] == [0] * 4


# An app whose import leaves threads


def test_an_app_that_imports_numpy_is_forked_without_a_word(tmp_path: Path, namespace: str) -> None:
    pytest.importorskip("pandas", reason="numpy and pandas come with the extra spark")
    url, app = f"sqlite:///{tmp_path}/numeric.db", "support.worker_apps.numeric:app"
    with desk(url, namespace) as client, worker_process(url, namespace, app, tmp_path, concurrency=2) as worker:
        tasks = [client.send("multiply", size=300) for _ in range(8)]
        assert {tuple(client.value(task)) for task in tasks} == {(300.0**3, True)}
        assert "worker.fork_disabled" not in worker.text


def test_an_app_that_leaves_threads_is_spawned_and_not_forked(tmp_path: Path, namespace: str) -> None:
    url = f"sqlite:///{tmp_path}/stem.db"
    with desk(url, namespace) as client, worker_process(url, namespace, THREADED, tmp_path, concurrency=2) as worker:
        until(lambda: "worker.fork_disabled" in worker.text and "(holder)" in worker.text)
        assert client.call("threads") == ["MainThread", "holder"]
        crashing = client.send("exits")
        assert client.ended(crashing).state is State.FAILED
        assert client.letter(crashing).reason == "crash-loop"
        spinning = client.ended(client.send("spins", {"hard_limit": 0.3, "max_retries": 0}))
        assert spinning.error is not None and spinning.error.type == "HardTimeLimitExceeded"
        softly = client.ended(client.send("sleeps", {"soft_limit": 0.2, "max_retries": 0}, seconds=30))
        assert softly.error is not None and softly.error.type == "stem.core.errors.SoftTimeLimitExceeded"
        assert client.call("inline") not in {worker.pid, 0}
        client.meet(tmp_path, 2, seconds=20)
        assert worker.stop() == 0
        until(lambda: not worker.descendants())


# In the caller's own process


@pytest.fixture
def app() -> Iterator[Stem]:
    with Stem(f"memory://lane{next(_names)}", retry=0.02, max_retries=1) as made:
        yield made


def test_a_worker_in_this_process_runs_tasks_of_an_app_that_nobody_can_import(app: Stem) -> None:
    @app.task
    def pid() -> int:
        return os.getpid()

    @app.task
    async def apid(ctx: TaskContext) -> list[object]:
        ctx.progress(1.0, "done")
        return [os.getpid(), ctx.worker]

    @app.task
    def fail() -> None:
        raise ValueError("as asked")

    with Worker(app, in_process=True, concurrency=4, name="here"):
        handles = [pid.enqueue() for _ in range(100)]
        assert {handle.get(10) for handle in handles} == {os.getpid()}
        handle = apid.enqueue()
        assert handle.get(10) == [os.getpid(), "here"]
        assert handle.status().meta["progress"]["message"] == "done"
        record = fail.enqueue().wait(10)
        assert (record.state, record.attempt) == (State.FAILED, 1)
    assert app.store.broker.depth()["default"].running == 0  # it is the app's store, and stays open


def test_a_worker_in_this_process_runs_as_many_at_once_as_it_may(app: Stem) -> None:
    gate = threading.Barrier(3)

    @app.task
    def meet() -> int:
        return gate.wait(10)

    with Worker(app, in_process=True, concurrency=3):
        assert {handle.get(10) for handle in [meet.enqueue() for _ in range(3)]} == {0, 1, 2}


def test_limits_hold_in_this_process_as_far_as_a_thread_can_be_told(app: Stem) -> None:
    told = threading.Event()

    @app.task(soft_limit=0.2)
    def gives_what_it_has() -> str:
        try:
            while True:
                time.sleep(0.01)
        except SoftTimeLimitExceeded:
            return "in part"

    @app.task(hard_limit=0.3, max_retries=0)
    def spins() -> None:
        try:
            while True:
                time.sleep(0.001)
        finally:
            told.set()

    @app.task
    def quick() -> str:
        return "quick"

    with Worker(app, in_process=True, concurrency=1):
        assert gives_what_it_has.enqueue().get(10) == "in part"
        record = spins.enqueue().wait(10)
        assert record.error is not None and record.error.type == "HardTimeLimitExceeded"
        assert told.wait(20)
        assert quick.enqueue().get(10) == "quick"


def test_closing_a_worker_in_this_process_lets_tasks_end_and_returns_the_rest(app: Stem) -> None:
    begun, release = threading.Event(), threading.Event()

    @app.task
    def waits() -> str:
        begun.set()
        release.wait(60)
        return "ended"

    worker = Worker(app, in_process=True, concurrency=1)
    worker.start()
    handles = [waits.enqueue() for _ in range(3)]
    assert begun.wait(20)
    closing = threading.Thread(target=worker.close)
    closing.start()
    until(lambda: app.store.broker.depth()["default"].ready == 2)
    release.set()
    closing.join(20)
    assert not closing.is_alive()
    assert handles[0].status().state is State.SUCCEEDED
    assert {handle.status().state for handle in handles[1:]} == {State.QUEUED}
    assert app.store.broker.depth()["default"].running == 0


def test_closing_a_worker_in_this_process_hard_returns_what_runs(app: Stem) -> None:
    begun = threading.Event()

    @app.task
    def waits() -> None:
        begun.set()
        while True:
            time.sleep(0.01)

    worker = Worker(app, in_process=True, concurrency=1)
    worker.start()
    handle = waits.enqueue()
    assert begun.wait(20)
    began_at = time.monotonic()
    worker.close("hard")
    assert time.monotonic() - began_at < 15
    record = handle.status()
    assert (record.state, record.attempt) == (State.QUEUED, 0)
