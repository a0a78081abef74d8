"""Tasks on Spark, in a real worker with a JVM in its isolate: results, progress, revokes, limits."""

import os
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from stem.core.lifecycle import State
from stem.core.record import TaskRecord
from support.pipeline.spark_jobs import START_SECONDS, Marks, active_stages, asked, revoke, spark_worker, told_by_spark
from support.until import until
from support.workers.processes import Desk, are_gone, desk

SOON = 5.0


@pytest.fixture(scope="module")
def clerk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """One worker for all tests here, its session warm from the second on."""
    place = tmp_path_factory.mktemp("jobs")
    url = f"sqlite:///{place}/stem.db"
    with spark_worker(url, "jobs", place), desk(url, "jobs") as opened:
        yield opened


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    return Marks(tmp_path / "marks")


@pytest.mark.timeout(180)
def test_a_task_gets_a_session_and_its_result_is_stored(clerk: Desk) -> None:
    assert clerk.value(clerk.send("sums", upto=1000), seconds=START_SECONDS) == 499_500


def test_the_session_is_warm_for_the_next_task(clerk: Desk) -> None:
    first = clerk.value(clerk.send("pids"), seconds=START_SECONDS)
    assert clerk.value(clerk.send("pids"), seconds=START_SECONDS) == first


def test_stages_are_progress_that_never_goes_back_and_never_falls_silent(clerk: Desk, marks: Marks) -> None:
    task = clerk.send("steps", file=str(marks.path), parts=10, seconds=1.0)
    spark = told_by_spark(until(lambda: _with_progress(clerk, task), seconds=START_SECONDS))
    until(lambda: any(f"stem:{task}:0" in job["jobTags"] for job in asked(spark, "jobs")), seconds=START_SECONDS)
    assert clerk.value(task, seconds=START_SECONDS) == 10
    told = [event for event in clerk.events(task) if event.kind == "progress"]
    fractions = [event.data["fraction"] or 0.0 for event in told]
    fractions.append(clerk.record(task).meta["progress"]["fraction"])
    assert fractions == sorted(fractions) and fractions[-1] == 1.0 and len({*fractions}) > 3
    assert max(b.at - a.at for a, b in pairwise(told)).total_seconds() < 2.0


def test_a_revoke_ends_the_python_of_its_tasks_before_it_says_cancelled(clerk: Desk, marks: Marks) -> None:
    task = clerk.send("writes", file=str(marks.path))
    marks.wait_for()
    revoke(clerk, task)
    assert clerk.ended(task, seconds=SOON).state == State.CANCELLED
    assert active_stages(told_by_spark(clerk.record(task))) == 0 and marks.stay_as_they_are()


def test_a_revoke_ends_a_shuffle_and_leaves_the_session_to_others(clerk: Desk, tmp_path: Path) -> None:
    before = clerk.value(clerk.send("pids"), seconds=START_SECONDS)
    task = clerk.send("shuffles", file=str(tmp_path / "begun"))
    spark = told_by_spark(until(lambda: _with_progress(clerk, task), seconds=SOON))
    until(lambda: active_stages(spark) > 0)
    revoke(clerk, task)
    assert clerk.ended(task, seconds=SOON).state == State.CANCELLED
    assert active_stages(spark) == 0
    assert clerk.value(clerk.send("pids"), seconds=SOON) == before


def test_a_soft_limit_can_be_caught_and_spark_used_once_more(clerk: Desk, marks: Marks) -> None:
    task = clerk.send("gives-what-it-has", {"soft_limit": 3.0}, file=str(marks.path))
    assert clerk.value(task, seconds=START_SECONDS) == ["soft", 7]
    assert marks.stay_as_they_are()


@pytest.mark.timeout(180)
def test_a_hard_limit_ends_the_jvm_with_the_isolate_before_it_says_failed(clerk: Desk, marks: Marks) -> None:
    family = [psutil.Process(pid) for pid in clerk.value(clerk.send("pids"), seconds=START_SECONDS)]
    task = clerk.send("writes", {"hard_limit": 8.0, "max_retries": 0}, file=str(marks.path))
    assert clerk.ended(task, seconds=8.0 + SOON).state == State.FAILED
    assert marks.of() and marks.stay_as_they_are() and are_gone(family)


@pytest.mark.timeout(240)
def test_an_isolate_that_is_killed_leaves_nothing_that_writes(clerk: Desk, marks: Marks) -> None:
    isolate, _ = clerk.value(clerk.send("pids"), seconds=START_SECONDS)
    task = clerk.send("writes", file=str(marks.path))
    marks.wait_for(0)
    os.kill(isolate, signal.SIGKILL)
    until(lambda: "requeued" in clerk.kinds(task), seconds=10)
    assert marks.stay_as_they_are(0.5)
    marks.wait_for(1)
    assert max(marks.of(0)) < min(marks.of(1))
    revoke(clerk, task)
    assert clerk.ended(task, seconds=SOON).state == State.CANCELLED


def test_a_session_that_a_handler_has_stopped_is_made_anew(clerk: Desk) -> None:
    clerk.value(clerk.send("stops-it"), seconds=START_SECONDS)
    assert clerk.value(clerk.send("sums", upto=10), seconds=START_SECONDS) == 45


def _with_progress(clerk: Desk, task: str) -> TaskRecord | None:
    record = clerk.record(task)
    return record if "spark" in record.meta.get("progress", {}) else None
