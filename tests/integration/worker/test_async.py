"""Coroutines share an isolate: they run at the same time, are told of their limits, and are not to blame for each other."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stem.core.lifecycle import State
from stem.worker.supervisor import Worker
from support.background import takes_less_than
from support.until import until
from support.workers.processes import Desk, desk, worker_here

COROUTINES = "support.worker_apps.coroutines:app"
ISOLATES = 2


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("async")


@pytest.fixture(scope="module")
def worker(place: Path) -> Iterator[Worker]:
    url = f"sqlite:///{place}/stem.db"
    with worker_here(url, "async", COROUTINES, concurrency=ISOLATES, async_concurrency=10, lease_seconds=5.0) as it:
        yield it


@pytest.fixture
def client(place: Path, worker: Worker) -> Iterator[Desk]:
    """After the test a task in each isolate, all at the same time, answers."""
    with desk(f"sqlite:///{place}/stem.db", "async") as opened:
        yield opened
        opened.meet(place, ISOLATES)


def test_coroutines_share_an_isolate(client: Desk) -> None:
    """Twenty naps of half a second in two isolates take less than three naps in a row would."""

    def naps() -> float:
        began_at = time.monotonic()
        pids = [client.value(task) for task in [client.send("naps", seconds=0.5) for _ in range(20)]]
        assert len(set(pids)) <= ISOLATES
        return time.monotonic() - began_at

    takes_less_than(1.5, naps)


def test_no_more_run_at_once_than_they_may(tmp_path: Path, namespace: str) -> None:
    url, marks = f"sqlite:///{tmp_path}/few.db", tmp_path / "marks"
    with desk(url, namespace) as client, worker_here(url, namespace, COROUTINES, concurrency=1, async_concurrency=3):
        tasks = [client.send("waits-for", marks=str(marks), file=str(tmp_path / "go")) for _ in range(5)]
        until(lambda: marks.exists() and len(marks.read_text().split()) == 3)
        others = client.send("naps", seconds=0)
        with pytest.raises(TimeoutError):
            client.value(others, seconds=0.3)
        assert len(marks.read_text().split()) == 3
        (tmp_path / "go").touch()
        assert [client.value(task) for task in tasks] == [0] * 5
        client.value(others)


def test_sync_and_async_tasks_take_turns(client: Desk) -> None:
    tasks = [client.send("naps", seconds=0.01) if n % 3 else client.send("pid") for n in range(120)]
    assert len({client.value(task) for task in tasks}) <= ISOLATES
    assert all(client.kinds(task) == ["enqueued", "started", "succeeded"] for task in tasks)


def test_coroutines_that_a_task_gathers_know_their_task(client: Desk) -> None:
    assert client.call("gathers", count=50) == list(range(50))


def test_a_soft_limit_reaches_the_handler_as_itself(client: Desk) -> None:
    assert client.call("gives-what-it-has") == "in part"


def test_a_soft_limit_in_a_group_is_the_tasks(client: Desk) -> None:
    record = client.ended(client.send("gives-up-in-a-group", {"max_retries": 0}))
    assert record.state is State.FAILED
    assert record.error is not None and "SoftTimeLimitExceeded" in record.error.type + record.error.stack


def test_a_soft_limit_ends_one_coroutine_and_not_its_neighbours(client: Desk) -> None:
    limited = client.send("naps", {"soft_limit": 0.2, "max_retries": 0}, seconds=30)
    neighbours = [client.send("naps", seconds=0.6) for _ in range(10)]
    record = client.ended(limited)
    assert record.error is not None and record.error.type == "stem.core.errors.SoftTimeLimitExceeded"
    assert record.error.retryable
    for neighbour in neighbours:
        client.value(neighbour)
        assert client.record(neighbour).attempt == 0


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("ValueError", ("ValueError", "as asked")),
        ("SystemExit", ("SystemExit", "as asked")),
        ("KeyboardInterrupt", ("KeyboardInterrupt", "as asked")),
        ("CancelledError", ("RuntimeError", "The task cancelled itself.")),
    ],
)
def test_whatever_is_raised_is_a_failure_worth_a_retry(client: Desk, kind: str, told: tuple[str, str]) -> None:
    task = client.send("raises", kind=kind)
    record = client.ended(task)
    assert (record.state, record.attempt) == (State.FAILED, 1)
    assert record.error is not None and (record.error.type, record.error.message) == told


def test_a_coroutine_that_cancels_itself_has_failed(client: Desk) -> None:
    record = client.ended(client.send("cancels-itself", {"max_retries": 0}))
    assert record.error is not None
    assert (record.error.type, record.error.message) == ("RuntimeError", "The task cancelled itself.")


@pytest.mark.parametrize(
    ("name", "value"), [("cancels-a-child", "cancelled"), ("times-out", "timed out"), ("leaves-work-behind", "left")]
)
def test_cancelling_within_is_the_handlers_own_affair(client: Desk, name: str, value: str) -> None:
    assert client.call(name) == value


def test_a_coroutine_that_stops_the_loop_is_a_crash_loop(client: Desk) -> None:
    task = client.send("stops-the-loop")
    assert client.ended(task).state is State.FAILED
    assert client.letter(task).reason == "crash-loop"


@pytest.mark.parametrize(("name", "args"), [("naps", {"seconds": 60}), ("defies-its-soft-limit", {})])
def test_a_hard_limit_ends_one_coroutine_and_not_its_neighbours(
    durable_url: str, namespace: str, tmp_path: Path, name: str, args: dict[str, Any]
) -> None:
    marks, go = tmp_path / "marks", tmp_path / "go"
    with desk(durable_url, namespace) as client, worker_here(durable_url, namespace, COROUTINES, concurrency=1):
        neighbours = [client.send("waits-for", marks=str(marks), file=str(go)) for _ in range(4)]
        until(lambda: marks.exists() and len(marks.read_text().split()) == 4)

        def requeues() -> int:
            return sum(client.kinds(each).count("requeued") for each in neighbours)

        def is_alone() -> bool:
            """An isolate that is halted for a second is killed, and its neighbours start again."""
            before = requeues()
            record = client.ended(client.send(name, {"hard_limit": 0.4, "max_retries": 0}, **args))
            assert record.error is not None and record.error.type == "HardTimeLimitExceeded"
            assert "0.4 s" in record.error.message
            return requeues() == before

        assert any(is_alone() for _ in range(5))
        go.touch()
        assert [client.value(neighbour) for neighbour in neighbours] == [0] * 4


def test_a_hard_limit_in_a_blocked_loop_costs_its_neighbours_no_attempt(
    durable_url: str, namespace: str, tmp_path: Path
) -> None:
    marks, go = tmp_path / "marks", tmp_path / "go"
    with desk(durable_url, namespace) as client, worker_here(durable_url, namespace, COROUTINES, concurrency=1):
        neighbours = [client.send("waits-for", marks=str(marks), file=str(go)) for _ in range(4)]
        until(lambda: marks.exists() and len(marks.read_text().split()) == 4)
        blocking = client.send("blocks", {"hard_limit": 0.3, "max_retries": 0}, marks=str(tmp_path / "blocked"))
        record = client.ended(blocking)
        assert record.error is not None and record.error.type == "HardTimeLimitExceeded"
        go.touch()
        assert [client.value(neighbour) for neighbour in neighbours] == [0] * 4
        for neighbour in neighbours:
            assert client.kinds(neighbour)[-3:] == ["requeued", "started", "succeeded"]


def test_a_crash_is_pinned_on_whoever_causes_it(durable_url: str, namespace: str, tmp_path: Path) -> None:
    """All that shared the isolate are suspects; each then runs alone, and only the culprit becomes a dead letter."""
    marks, go = tmp_path / "marks", tmp_path / "go"
    with desk(durable_url, namespace) as client, worker_here(durable_url, namespace, COROUTINES, concurrency=2):
        culprit = client.send("exits", marks=str(marks), when=str(go))
        others = [client.send("waits-for", marks=str(marks), file=str(go)) for _ in range(5)]
        until(lambda: marks.exists() and len(set(marks.read_text().split())) == 6)
        go.touch()
        assert client.ended(culprit).state is State.FAILED
        assert client.letter(culprit).reason == "crash-loop"
        assert [client.value(other) for other in others] == [0] * 5
        client.meet(tmp_path, 2)
