"""Workers that are lost while their task runs on Spark: the next attempt is alone, however the last one was lost."""

import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from stem.core.lifecycle import State
from support.pipeline.spark_jobs import START_SECONDS, Marks, spark_worker
from support.until import until
from support.workers.processes import Desk, are_gone, desk

pytestmark = pytest.mark.timeout(240)

NAMESPACE = "killed"
SHORT: dict[str, Any] = {
    "lease_seconds": 1.0,
    "reclaim_seconds": 0.2,
}  # far less than a JVM would take to end by itself


@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_lost_worker_has_an_heir_that_runs_alone_and_can_be_shut_down(tmp_path: Path, fate: signal.Signals) -> None:
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
            family = heir.descendants()
            heir.stop(signal.SIGINT)  # a soft one: what runs is told to stop, and goes back
            assert clerk.record(task).state == State.QUEUED and marks.stay_as_they_are(0.5)
            until(lambda: are_gone(family))  # also who sweeps up after Spark


@pytest.mark.parametrize("order", [signal.SIGQUIT, signal.SIGINT], ids=["hard", "soft"])
def test_a_shutdown_gives_back_what_runs_on_spark_when_nothing_of_it_is_left(
    tmp_path: Path, order: signal.Signals
) -> None:
    """In that moment, not soon after; then the next worker runs it to its end, as the attempt that it was."""
    url, marks, end = f"sqlite:///{tmp_path}/stem.db", Marks(tmp_path / "marks"), tmp_path / "end"
    with spark_worker(url, NAMESPACE, tmp_path) as first, desk(url, NAMESPACE) as clerk:
        task = clerk.send("writes-until", file=str(marks.path), end=str(end))
        until(marks.of, seconds=START_SECONDS)
        family = [each for each in first.descendants() if _is_of_spark(each)]
        assert len(family) >= 4  # a JVM, the process that its Python is forked from, and two of those
        first.send(order)
        until(lambda: clerk.record(task).state == State.QUEUED, seconds=20, every=0.001)
        assert order == signal.SIGINT or not any(map(_can_act, family))
        assert marks.stay_as_they_are(0.5) and first.process.wait(20) == 0 and are_gone(family)
        assert clerk.record(task).attempt == 0 and clerk.kinds(task).count("requeued") == 1
        with spark_worker(url, NAMESPACE, tmp_path):
            until(lambda: len(marks.authors()) == 2, seconds=START_SECONDS)
            end.touch()
            assert clerk.value(task, seconds=START_SECONDS) == 2
    one, other = marks.authors()
    assert max(marks.of(int(one))) < min(marks.of(int(other)))


def _can_act(process: psutil.Process) -> bool:
    """Not one that is dying: its memory goes first, and a JVM has much of it."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.memory_info().rss)
    return False


def _is_of_spark(process: psutil.Process) -> bool:
    command = ""
    with suppress(psutil.Error):  # what Spark ran for a moment
        command = " ".join(process.cmdline())
    return "java" in command.partition(" ")[0] or "pyspark.daemon" in command


def _warm(clerk: Desk) -> None:
    """The other worker is busy, so this one has a session from here on, and needs no time to start it."""
    assert clerk.value(clerk.send("sums", upto=3), seconds=START_SECONDS) == 3
