"""Processes that a task has started end with it where it is ended early, and with its isolate in any case."""

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest

from stem.core.lifecycle import State
from stem.worker.supervisor import Worker
from support.builders import a_push
from support.until import until
from support.workers.fleet import Fleet, FleetWorker, a_fleet
from support.workers.processes import Desk, are_gone, desk, worker_here

APP = "support.worker_apps.starting:app"
WAYS = ["child", "in a session of its own", "behind a shell", "as a daemon", "forked"]


@pytest.fixture
def fleet(tmp_path: Path, namespace: str) -> Iterator[Fleet]:
    yield from a_fleet(f"sqlite:///{tmp_path}/stem.db", namespace, tmp_path)


def started(file: Path) -> list[psutil.Process]:
    """What a task says that it has started, all of it alive."""
    until(lambda: file.exists() and file.read_text().endswith("\n"), seconds=30)
    found = [psutil.Process(int(pid)) for pid in file.read_text().split()]
    assert found and all(process.name() == "sleep" for process in found)
    return found


def terminate(worker: Worker, task_id: str) -> str:
    running = worker._running
    assert running is not None
    return running.services.pool.revoke({task_id: "asked"}, terminate=True, signal_number=signal.SIGTERM).result(10)[
        task_id
    ]


@pytest.mark.parametrize("way", WAYS)
def test_terminate_ends_what_the_task_has_started(durable_url: str, namespace: str, tmp_path: Path, way: str) -> None:
    """And nothing of its neighbour's; the worker goes on."""
    with desk(durable_url, namespace) as client, worker_here(durable_url, namespace, APP, concurrency=2) as worker:
        task = client.send("starts-and-waits", file=str(tmp_path / "ours"), way=way)
        other = client.send("starts-and-waits", file=str(tmp_path / "other"), way=way)
        ours, others = started(tmp_path / "ours"), started(tmp_path / "other")
        assert terminate(worker, task) == "terminating"
        assert client.ended(task).state is State.CANCELLED
        assert are_gone(ours), "before anybody heard of the end"
        assert all(process.is_running() for process in others)
        assert terminate(worker, other) == "terminating"
        assert client.ended(other).state is State.CANCELLED
        client.meet(tmp_path, 2)


@pytest.mark.parametrize("limit", ["soft_limit", "hard_limit"])
@pytest.mark.parametrize("way", WAYS)
def test_a_limit_ends_what_the_task_has_started(
    tmp_path_factory: pytest.TempPathFactory, limited: Desk, way: str, limit: str
) -> None:
    file = tmp_path_factory.mktemp("limit") / "file"
    task = limited.send("starts-and-waits", {limit: 3.0, "max_retries": 0}, file=str(file), way=way)
    processes = started(file)
    error = limited.ended(task).error
    assert error is not None and "TimeLimitExceeded" in error.type
    until(lambda: are_gone(processes))


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    url = f"sqlite:///{tmp_path_factory.mktemp('limits')}/stem.db"
    with worker_here(url, "limits", APP, concurrency=2), desk(url, "limits") as client:
        yield client


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_a_shutdown_ends_what_running_tasks_have_started(
    durable_url: str, namespace: str, tmp_path: Path, number: int
) -> None:
    with Fleet(durable_url, namespace, tmp_path) as fleet:
        worker = fleet.start(app_path=APP, concurrency=len(WAYS) + 1)
        files = [tmp_path / f"file{place}" for place in range(len(WAYS))]
        for file, way in zip(files, WAYS, strict=True):
            push(fleet, "starts-and-waits", file.name, file=str(file), way=way)
        push(fleet, "waits-for-its-child", "waits", file=str(tmp_path / "waits"))
        processes = [process for file in [*files, tmp_path / "waits"] for process in started(file)]
        assert worker.stop(number) == 0
        assert are_gone(processes)
        for id in [*(file.name for file in files), "waits"]:
            assert (fleet.record(id).state, fleet.record(id).attempt) == (State.QUEUED, 0)


def test_processes_left_by_ended_tasks_end_with_the_worker(fleet: Fleet) -> None:
    worker = fleet.start(app_path=APP, concurrency=2)
    ids = [push(fleet, "starts-and-returns", f"t{place}", way=way) for place, way in enumerate(WAYS)]
    records = fleet.ended(ids)
    pids = [pid for record in records.values() for pid in msgspec.json.decode(record.payload or b"[]")]
    assert len(pids) == len(WAYS) + 1
    processes = [psutil.Process(pid) for pid in pids]
    assert worker.stop() == 0
    assert are_gone(processes)


def supervisor_and_server(worker: FleetWorker) -> list[psutil.Process]:
    return [psutil.Process(worker.pid), worker.server]


VICTIMS: dict[str, Callable[[FleetWorker], list[psutil.Process]]] = {
    "the isolates": lambda worker: worker.isolates,
    "the fork server": lambda worker: [worker.server],
    "the reaper": lambda worker: [worker.reaper],
    "the supervisor": lambda worker: [psutil.Process(worker.pid)],
    "the supervisor and the fork server": supervisor_and_server,
    "the supervisor and the isolates": lambda worker: [psutil.Process(worker.pid), *worker.isolates],
}


@pytest.mark.parametrize("victims", VICTIMS)
def test_a_kill_leaves_nothing_of_what_tasks_have_started(fleet: Fleet, tmp_path: Path, victims: str) -> None:
    worker = fleet.start(app_path=APP, concurrency=len(WAYS))
    files = [tmp_path / f"file{place}" for place in range(len(WAYS))]
    for file, way in zip(files, WAYS, strict=True):
        push(fleet, "starts-and-waits", file.name, file=str(file), way=way)
    processes = [process for file in files for process in started(file)]
    doomed = VICTIMS[victims](worker)
    for process in doomed:
        process.suspend()  # so that none can do anything about the others' deaths
    for process in doomed:
        with suppress(psutil.NoSuchProcess):  # the kernel ends the server with its parent, and that may be faster
            process.kill()
    until(lambda: are_gone([*doomed, *processes]), seconds=30)


def test_a_daemon_of_the_apps_import_is_spared_though_its_parent_ends_later(fleet: Fleet, tmp_path: Path) -> None:
    ends = tmp_path / "ends"
    variables = {"STEM_DAEMON": str(tmp_path / "daemon"), "STEM_DAEMON_PARENT_ENDS": str(ends)}
    worker = fleet.start(app_path=APP, variables=variables)
    daemon = psutil.Process(int((tmp_path / "daemon").read_text()))
    ends.touch()
    until(lambda: daemon.ppid() == worker.server.pid)
    for process in worker.isolates:
        if process.pid != daemon.pid:
            process.kill()
    ids = [push(fleet, "pid", f"t{place}") for place in range(2)]
    assert {record.state for record in fleet.ended(ids).values()} == {State.SUCCEEDED}
    assert daemon.is_running() and daemon.status() != psutil.STATUS_ZOMBIE
    assert worker.stop() == 0
    assert are_gone([daemon])


def test_processes_started_by_the_import_of_the_app_are_spared(fleet: Fleet, tmp_path: Path) -> None:
    worker = fleet.start(app_path=APP, variables={"STEM_HELPER": str(tmp_path / "helper")})
    helper = psutil.Process(int((tmp_path / "helper").read_text()))
    for process in worker.isolates:
        if process.pid != helper.pid:
            process.kill()
    assert fleet.ended([push(fleet, "pid", "after")])["after"].state is State.SUCCEEDED
    assert helper.is_running() and helper.status() != psutil.STATUS_ZOMBIE
    assert worker.stop() == 0
    assert are_gone([helper])


def test_processes_of_a_stopped_coroutine_end_when_its_neighbours_are_done(tmp_path: Path, namespace: str) -> None:
    url = f"sqlite:///{tmp_path}/stem.db"
    with desk(url, namespace) as client, worker_here(url, namespace, APP, concurrency=1) as worker:
        neighbour = client.send("awaits-file", mark=str(tmp_path / "mark"), file=str(tmp_path / "go"))
        until((tmp_path / "mark").exists)
        task = client.send("starts-async", file=str(tmp_path / "file"))
        processes = started(tmp_path / "file")
        assert terminate(worker, task) == "terminating"
        assert client.ended(task).state is State.CANCELLED
        (tmp_path / "go").touch()
        assert client.value(neighbour) == "there"
        until(lambda: are_gone(processes))
        assert client.kinds(neighbour).count("started") == 1


def test_processes_of_a_stopped_inline_task_end_with_it(tmp_path: Path, namespace: str) -> None:
    url = f"sqlite:///{tmp_path}/stem.db"
    with desk(url, namespace) as client, worker_here(url, namespace, APP, concurrency=1) as worker:
        task = client.send("starts-inline", file=str(tmp_path / "file"))
        processes = started(tmp_path / "file")
        assert terminate(worker, task) == "terminating"
        assert client.ended(task).state is State.CANCELLED
        until(lambda: are_gone(processes))


def push(fleet: Fleet, name: str, id: str, **args: object) -> str:
    (pushed,) = fleet.push_all([a_push(id, name=name, args=args)])
    return pushed


def test_a_reaper_that_was_started_with_sigchld_ignored_ends_with_its_fork_server() -> None:
    """As under a launcher that does not care for its children."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        words = [sys.executable, "-m", "stem.worker.fork.reaper", str(theirs.fileno())]
        ignoring = (
            "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
        )
        reaper = subprocess.Popen([sys.executable, "-c", ignoring, *words], pass_fds=[theirs.fileno()])
    try:
        reaper.wait(30)
    finally:
        reaper.kill()
