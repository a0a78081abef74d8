"""Workers that die while their task runs on Spark: the next attempt is alone, however the last one was lost."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from stem.core.lifecycle import State
from support.sparkling import START_SECONDS, Marks, revoke, spark_worker
from support.until import until
from support.working import Desk, WorkerProcess, are_gone, desk

pytestmark = pytest.mark.timeout(240)

NAMESPACE = "killed"
SHORT = {"lease_seconds": 1.0, "reclaim_seconds": 0.2}  # far less than a JVM would take to end by itself


def test_the_isolate(tmp_path: Path) -> None:
    url, marks = f"sqlite:///{tmp_path}/stem.db", Marks(tmp_path / "marks")
    with spark_worker(url, NAMESPACE, tmp_path) as worker, desk(url, NAMESPACE) as clerk:
        task = clerk.send("writes", file=str(marks.path))
        marks.wait_for(0)
        jvm = _jvm(worker)
        os.kill(jvm.ppid(), signal.SIGKILL)
        until(lambda: "requeued" in clerk.kinds(task), seconds=10)
        assert marks.stay_as_they_are(0.5) and are_gone([jvm])
        marks.wait_for(1)
        assert max(marks.of(0)) < min(marks.of(1))


@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP])
def test_the_supervisor(tmp_path: Path, fate: signal.Signals) -> None:
    """One that is stopped has an isolate that goes on writing when the lease has run out, until the next attempt ends it."""
    url, marks = f"sqlite:///{tmp_path}/stem.db", Marks(tmp_path / "marks")
    with spark_worker(url, NAMESPACE, tmp_path, **SHORT) as lost, desk(url, NAMESPACE) as clerk:
        task = clerk.send("writes", file=str(marks.path))
        marks.wait_for(0)
        with spark_worker(url, NAMESPACE, tmp_path, **SHORT) as heir:
            _warm(clerk)
            lost.send(fate)
            marks.wait_for(1)
            assert max(marks.of(0)) < min(marks.of(1))
            revoke(clerk, task)
            assert clerk.ended(task, seconds=10).state == State.CANCELLED and marks.stay_as_they_are(0.5)
            assert heir.stop() == 0


def test_a_soft_shutdown_puts_the_task_back_and_leaves_nothing(tmp_path: Path) -> None:
    url, marks = f"sqlite:///{tmp_path}/stem.db", Marks(tmp_path / "marks")
    with spark_worker(url, NAMESPACE, tmp_path) as worker, desk(url, NAMESPACE) as clerk:
        task = clerk.send("writes", file=str(marks.path))
        marks.wait_for(0)
        family = worker.descendants()
        worker.stop(signal.SIGINT)
        assert clerk.record(task).state == State.QUEUED and clerk.record(task).attempt == 0
        assert marks.stay_as_they_are(0.5)
        until(lambda: are_gone(family))  # also who sweeps up after Spark


def _jvm(worker: WorkerProcess) -> psutil.Process:
    return next(process for process in worker.descendants() if process.name() == "java")


def _warm(clerk: Desk) -> None:
    """The other worker is busy, so this one has a session from here on, and needs no time to start it."""
    assert clerk.value(clerk.send("sums", upto=3), seconds=START_SECONDS) == 3
