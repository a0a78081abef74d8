"""Limits hold, whatever the handler does; the slot is free again at once, and no other task is hurt."""

import math
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from stem.core.lifecycle import State
from stem.worker.supervisor import Worker
from support.background import takes_less_than
from support.until import until
from support.workers.processes import Desk, desk, worker_here

LIMITED = "support.worker_apps.limited:app"
ISOLATES = 2
WAYS = ["spins", "keeps-the-lock", "sums", "matches", "waits-for-a-child", "defies"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("limits")


@pytest.fixture(scope="module")
def worker(place: Path) -> Iterator[Worker]:
    with worker_here(f"sqlite:///{place}/stem.db", "limits", LIMITED, concurrency=ISOLATES, lease_seconds=5.0) as it:
        yield it


@pytest.fixture
def client(place: Path, worker: Worker) -> Iterator[Desk]:
    """After the test a task in each isolate, all at the same time, answers."""
    with desk(f"sqlite:///{place}/stem.db", "limits") as opened:
        yield opened
        opened.meet(place, ISOLATES)


def took_seconds(client: Desk, task_id: str) -> float:
    """From the enqueue to the last ending, retries and all, in the store's time."""
    events = client.events(task_id)
    return (events[-1].at - events[0].at).total_seconds()


@pytest.mark.parametrize("way", WAYS)
def test_a_hard_limit_ends_whatever_the_handler_does(client: Desk, tmp_path: Path, way: str) -> None:
    """Each attempt counts; when they are spent it is a dead letter."""

    def takes() -> float:
        marks = tmp_path / os.urandom(4).hex()
        task = client.send(way, {"hard_limit": 0.4}, file=str(marks))
        record = client.ended(task)
        assert (record.state, record.attempt) == (State.FAILED, 1)
        assert record.error is not None and record.error.type == "HardTimeLimitExceeded" and record.error.retryable
        assert "0.4 s" in record.error.message
        assert client.letter(task).reason == "retries-exhausted"
        assert client.kinds(task) == ["enqueued", "started", "retried", "started", "failed", "dead-lettered"]
        seconds = took_seconds(client, task)
        assert seconds >= 0.8
        begun = len(marks.read_text().split()) if marks.exists() else 0
        return seconds if begun == 2 else math.inf  # halted before its first line

    takes_less_than(2.0, takes)


def test_a_hard_limit_ends_child_processes(client: Desk, tmp_path: Path) -> None:
    def left() -> str:
        marks = tmp_path / os.urandom(4).hex()
        client.ended(client.send("waits-for-a-child", {"hard_limit": 0.3, "max_retries": 0}, file=str(marks)))
        return marks.read_text() if marks.exists() else ""  # it was halted before it had a child

    child = int(until(left))
    until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_a_task_after_one_that_was_killed_starts_at_once(tmp_path: Path, namespace: str) -> None:
    """Also where there is but one isolate."""
    url = f"sqlite:///{tmp_path}/one.db"
    with desk(url, namespace) as client, worker_here(url, namespace, LIMITED, concurrency=1):

        def starts_after() -> float:
            spinning = client.send("spins", {"hard_limit": 0.4, "max_retries": 0}, file=str(tmp_path / "marks"))
            waiting = client.send("pid")
            client.ended(spinning)
            killed_at = time.monotonic()
            client.value(waiting)
            return time.monotonic() - killed_at

        takes_less_than(2.0, starts_after)


def test_a_limit_is_the_calls_before_the_tasks_before_the_apps(client: Desk, tmp_path: Path) -> None:
    marks = str(tmp_path / "marks")
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("spins-briefly", {"hard_limit": 0.6}, "0.6 s"),
        ("spins-briefly", {}, "0.3 s"),
        ("spins", {}, "1.5 s"),
    ]
    tasks = [client.send(name, {"max_retries": 0, **options}, file=marks) for name, options, _ in cases]
    for task, (_, _, limit) in zip(tasks, cases, strict=True):
        error = client.ended(task).error
        assert error is not None and error.message == f"The task ran past its limit of {limit}."


def test_the_workers_limits_are_for_tasks_that_have_none(tmp_path: Path, namespace: str) -> None:
    url = f"sqlite:///{tmp_path}/own.db"
    plain = "support.worker_apps.plain:app"
    with (
        desk(url, namespace) as client,
        worker_here(url, namespace, plain, concurrency=2, soft_limit=0.2, hard_limit=0.6),
    ):

        def is_told_softly() -> bool:
            softly = client.ended(client.send("mark", {"max_retries": 0}, file=str(tmp_path / "marks"), seconds=30))
            assert softly.error is not None
            return softly.error.type.endswith("SoftTimeLimitExceeded")

        until(is_told_softly)  # one that is halted for as long comes to the hard limit first
        hardly = client.ended(
            client.send("hold", {"max_retries": 0, "soft_limit": 20}, file=str(tmp_path / "marks"), until="/nowhere")
        )
        assert hardly.error is not None and hardly.error.message == "The task ran past its limit of 0.6 s."
        longer = client.send("mark", {"hard_limit": 20, "soft_limit": 15}, file=str(tmp_path / "m"), seconds=0.9)
        assert client.ended(longer).state is State.SUCCEEDED


def test_a_soft_limit_that_is_caught_gives_what_there_is(client: Desk) -> None:
    def gives_after() -> float:
        found = client.value(client.send("gives-what-it-has", {"hard_limit": 20}))
        assert found["seconds"] >= 0.25 and found["count"] > 1000
        assert "soft time limit" in found["told"]
        return float(found["seconds"])

    takes_less_than(1.0, gives_after)


def test_a_soft_limit_that_is_not_caught_is_a_failure_worth_a_retry(client: Desk) -> None:
    def takes() -> float:
        task = client.send("sleeps", {"soft_limit": 0.2, "hard_limit": 20}, seconds=30)
        record = client.ended(task)
        assert (record.state, record.attempt) == (State.FAILED, 1)
        assert record.error is not None and record.error.retryable
        assert record.error.type == "stem.core.errors.SoftTimeLimitExceeded"
        assert client.letter(task).reason == "retries-exhausted"
        seconds = took_seconds(client, task)
        assert seconds >= 0.4
        return seconds if "time.sleep(seconds)" in record.error.stack else math.inf  # halted before it slept

    takes_less_than(1.5, takes)


def test_a_soft_limit_is_told_once(client: Desk, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    record = client.ended(client.send("cleans-up", {"max_retries": 0, "hard_limit": 20}, file=str(marks), seconds=0.3))
    assert record.state is State.FAILED and marks.read_text() == "clean\n"


def test_a_soft_limit_is_followed_by_the_hard_one(client: Desk, tmp_path: Path) -> None:
    record = client.ended(
        client.send("defies", {"max_retries": 0, "soft_limit": 0.2, "hard_limit": 0.5}, file=str(tmp_path / "marks"))
    )
    assert record.error is not None and record.error.type == "HardTimeLimitExceeded"


def test_a_soft_limit_stays_with_its_task(client: Desk) -> None:
    """The next ones in the same isolate are not told of it."""
    limits = {"soft_limit": 0.1, "hard_limit": 20, "max_retries": 0}
    tasks = [client.send("sleeps", limits, seconds=0.06 + 0.00125 * n) for n in range(40)]
    quick = [client.send("sleeps", {"hard_limit": 20}, seconds=0.005) for _ in range(40)]
    ends = Counter(str(client.ended(task).state) for task in tasks)
    assert ends["succeeded"] + ends["failed"] == 40 and ends["succeeded"] > 0
    assert all(client.value(task) == "slept" for task in quick)
    errors = {error.type for task in tasks if (error := client.record(task).error) is not None}
    assert errors <= {"stem.core.errors.SoftTimeLimitExceeded"}


def test_a_kill_hurts_no_other_task(durable_url: str, namespace: str, tmp_path: Path) -> None:
    """Quick tasks queued before, between and behind spinning ones run exactly once each."""
    marks, spun = tmp_path / "marks", tmp_path / "spun"
    with desk(durable_url, namespace) as client, worker_here(durable_url, namespace, LIMITED, concurrency=ISOLATES):
        quick, spinning = [], []
        for number in range(300):
            quick.append(client.send("mark", {"hard_limit": 20}, file=str(marks), text=str(number)))
            if number % 50 == 25:
                spinning.append(client.send("spins-briefly", {"max_retries": 0}, file=str(spun)))
        for task in spinning:
            assert client.ended(task).state is State.FAILED
            assert client.kinds(task).count("started") == 1
        for task in quick:
            record = client.ended(task)
            assert (record.state, record.attempt) == (State.SUCCEEDED, 0)
    assert Counter(marks.read_text().split()) == Counter(map(str, range(300)))
    assert len(spinning) == 6


def test_a_kill_at_the_moment_of_the_end_hurts_no_other_task(client: Desk, tmp_path: Path) -> None:
    """Tasks that take about as long as they may, with quick ones right behind them in the same isolates."""
    marks = tmp_path / "marks"
    edgy, quick = [], []
    for number in range(24):
        edgy.append(client.send("sleeps", {"hard_limit": 0.1, "max_retries": 0}, seconds=0.09 + 0.003 * (number % 12)))
        quick += [client.send("mark", {"hard_limit": 20}, file=str(marks), text=f"{number}-{n}") for n in range(10)]
    ends = Counter(str(client.ended(task).state) for task in edgy)
    assert ends["succeeded"] + ends["failed"] == 24
    assert all(client.ended(task).state is State.SUCCEEDED for task in quick)
    assert set(Counter(marks.read_text().split()).values()) == {1}
