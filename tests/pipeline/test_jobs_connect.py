"""Tasks on a real Spark Connect server, which goes on with what a dead client has left there unless it is told not to."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stem.core.lifecycle import State
from support.sparkling import START_SECONDS, Marks, connect_server, revoke, spark_worker, told_by_spark
from support.working import Desk, desk

pytestmark = pytest.mark.timeout(240)

NAMESPACE = "connect"
SHORT: dict[str, Any] = {"lease_seconds": 1.0, "reclaim_seconds": 0.2}
SOON = 10.0  # 2.6 s for the Python on the server, the rest for a revoke that is found by looking, and a busy machine


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("server")) as address:
        yield address


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


def test_a_revoke_ends_the_python_on_the_server_before_it_says_cancelled(clerk: Desk, marks: Marks) -> None:
    task = clerk.send("writes", file=str(marks.path))
    marks.wait_for()
    revoke(clerk, task)
    assert clerk.ended(task, seconds=SOON).state == State.CANCELLED
    assert marks.stay_as_they_are()


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
