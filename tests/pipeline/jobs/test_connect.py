"""Tasks on a real Spark Connect server, which goes on with what a dead client has left there unless it is told not to."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stem.core.lifecycle import State
from support.pipeline.spark_jobs import (
    START_SECONDS,
    ConnectServer,
    Marks,
    active_stages,
    connect_server,
    revoke,
    spark_worker,
    told_by_spark,
)
from support.until import until
from support.worker_apps.bulk import PATH as BULK
from support.workers.processes import Desk, desk, environment

pytestmark = pytest.mark.timeout(240)

NAMESPACE = "connect"
SHORT: dict[str, Any] = {"lease_seconds": 1.0, "reclaim_seconds": 0.2}
SOON = 5.0  # 2.6 s of it for the Python on the server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with connect_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def remote(server: ConnectServer) -> str:
    return server.address


@pytest.fixture(scope="module")
def clerk(remote: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    place = tmp_path_factory.mktemp("connect")
    url = f"sqlite:///{place}/stem.db"
    with spark_worker(url, NAMESPACE, place, remote=remote), desk(url, NAMESPACE) as opened:
        yield opened


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    return Marks(tmp_path / "marks")


def test_a_task_gets_a_session_and_tells_how_far_it_is(clerk: Desk, marks: Marks) -> None:
    task = clerk.send("steps", file=str(marks.path), parts=4, seconds=1.0)
    assert clerk.value(task, seconds=START_SECONDS) == 4
    assert told_by_spark(clerk.record(task))["sessionId"] and clerk.record(task).meta["progress"]["fraction"] == 1.0
    fractions = [event.data["fraction"] or 0.0 for event in clerk.events(task) if event.kind == "progress"]
    assert fractions == sorted(fractions)


def test_a_revoke_ends_the_python_on_the_server_before_it_says_cancelled(
    clerk: Desk, marks: Marks, server: ConnectServer
) -> None:
    task = clerk.send("writes", file=str(marks.path))
    marks.wait_for()
    assert _stages(clerk, task, server) > 0
    _revoked_in_time(clerk, task, server)
    assert marks.stay_as_they_are()


def test_a_revoke_ends_a_shuffle_on_the_server(clerk: Desk, server: ConnectServer, tmp_path: Path) -> None:
    task = clerk.send("shuffles", file=str(tmp_path / "begun"))
    until(lambda: "spark" in clerk.record(task).meta.get("progress", {}), seconds=START_SECONDS)
    until(lambda: _stages(clerk, task, server) > 0)
    _revoked_in_time(clerk, task, server)


def test_a_soft_limit_can_be_caught_and_spark_used_once_more(clerk: Desk, marks: Marks) -> None:
    task = clerk.send("gives-what-it-has", {"soft_limit": 5.0}, file=str(marks.path))
    assert clerk.value(task, seconds=START_SECONDS) == ["soft", 7]


def test_a_hard_limit_ends_what_the_dead_isolate_has_left_on_the_server(clerk: Desk, marks: Marks) -> None:
    task = clerk.send("writes", {"hard_limit": 8.0, "max_retries": 0}, file=str(marks.path))
    assert clerk.ended(task, seconds=START_SECONDS).state == State.FAILED
    assert marks.of() and marks.stay_as_they_are()


def test_a_killed_worker_leaves_a_job_that_the_next_attempt_ends_first(
    remote: str, tmp_path: Path, marks: Marks
) -> None:
    url = f"sqlite:///{tmp_path}/stem.db"
    with spark_worker(url, NAMESPACE, tmp_path, remote=remote, **SHORT) as lost, desk(url, NAMESPACE) as clerk:
        task = clerk.send("writes", file=str(marks.path))
        marks.wait_for(0)
        with spark_worker(url, NAMESPACE, tmp_path, remote=remote, **SHORT):
            lost.send(signal.SIGKILL)
            marks.wait_for(1)
            assert max(marks.of(0)) < min(marks.of(1))
            revoke(clerk, task)
            assert clerk.ended(task, seconds=SOON).state == State.CANCELLED and marks.stay_as_they_are()


def test_a_hard_shutdown_ends_what_runs_on_the_server_before_it_goes_back(
    remote: str, tmp_path: Path, marks: Marks
) -> None:
    url, end = f"sqlite:///{tmp_path}/stem.db", tmp_path / "end"
    with spark_worker(url, NAMESPACE, tmp_path, remote=remote) as first, desk(url, NAMESPACE) as clerk:
        task = clerk.send("writes-until", file=str(marks.path), end=str(end))
        until(marks.of, seconds=START_SECONDS)
        first.send(signal.SIGQUIT)
        until(lambda: clerk.record(task).state == State.QUEUED)
        assert marks.stay_as_they_are() and clerk.record(task).attempt == 0
        assert first.process.wait(10) == 0
        with spark_worker(url, NAMESPACE, tmp_path, remote=remote):
            until(lambda: len(marks.authors()) == 2, seconds=START_SECONDS)
            end.touch()
            assert clerk.value(task, seconds=START_SECONDS) == 2


def test_a_bulk_runs_on_the_server_and_a_revoke_ends_it_there(remote: str, tmp_path: Path) -> None:
    url, book = f"sqlite:///{tmp_path}/stem.db", tmp_path / "book"
    book.touch()
    few, many = tmp_path / "few.parquet", tmp_path / "many.parquet"
    pq.write_table(pa.table({"n": range(40), "mended": [str(tmp_path / "mended")] * 40}), few)
    pq.write_table(pa.table({"n": range(900), "book": [str(book)] * 900, "seconds": [0.1] * 900}), many)
    words = [
        "--app",
        BULK,
        "--task",
        "fussy",
        "--from",
        str(few),
        "--to",
        f"{tmp_path}/some",
        "--key",
        "n",
        "--id",
        "b1",
    ]
    command = [sys.executable, "-m", "stem", "pipeline", "bulk", "--remote", remote, *words, "--json"]
    told = subprocess.run(command, env=environment(url, NAMESPACE), capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert (found["items"], found["succeeded"], found["failed"], found["buried"]) == (40, 35, 5, 5)
    with spark_worker(url, NAMESPACE, tmp_path, remote=remote, app=BULK), desk(url, NAMESPACE) as clerk:
        assert clerk.letter("b1:27").reason == "crash-loop"
        task = clerk.send("marks.bulk", source=str(many), to=str(tmp_path / "results"))
        until(lambda: clerk.record(task).meta.get("progress", {}).get("items"), seconds=START_SECONDS)
        revoke(clerk, task)
        assert clerk.ended(task, seconds=SOON).state == State.CANCELLED
        lines = book.read_text()
        assert lines.count("\n") < 900
        time.sleep(0.5)  # of which each item takes a fifth
        assert book.read_text() == lines


def _stages(clerk: Desk, task: str, server: ConnectServer) -> int:
    return active_stages({**told_by_spark(clerk.record(task)), "uiUrl": server.ui})


def _revoked_in_time(clerk: Desk, task: str, server: ConnectServer) -> None:
    """Nothing of it is left on the server, and then the state says so, both within the time."""
    end = time.monotonic() + SOON
    revoke(clerk, task)
    until(lambda: _stages(clerk, task, server) == 0, seconds=end - time.monotonic())
    assert clerk.ended(task, seconds=end - time.monotonic()).state == State.CANCELLED
