"""What a task sees of itself in a real worker, and what it says through its context."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stem.core.lifecycle import State
from stem.worker.services.progress_reporter import PAUSE_SECONDS
from stem.worker.supervisor import Worker
from support.background import takes_less_than
from support.stores.calls import let_time_pass
from support.until import until
from support.workers.processes import Desk, desk, worker_here, worker_process

CONTEXTUAL = "support.worker_apps.contextual:app"


@pytest.fixture
def client(durable_url: str, namespace: str) -> Iterator[Desk]:
    with desk(durable_url, namespace) as opened:
        yield opened


@pytest.fixture
def worker(durable_url: str, namespace: str, client: Desk) -> Iterator[Worker]:
    with worker_here(durable_url, namespace, CONTEXTUAL, concurrency=2, name="it") as started:
        yield started


@pytest.mark.usefixtures("worker")
def test_a_task_knows_itself_and_its_forebears(client: Desk) -> None:
    given: dict[str, Any] = {"id": "one", "headers": {"tenant": "acme"}, "meta": {"n": 1}, "max_retries": 7}
    known = {"name": "who", "queue": "default", "attempt": 0, "worker": "it", "tenant": "acme"}
    assert client.value(client.send("who", given)) == given | known | {"parent": None, "root": "one"}
    assert client.value(client.send("who-async", {"id": "two"})) == "two"

    root = client.send("enqueues", depth=2)
    middle, *_ = client.value(root)
    lowest, by_name, by_task = client.value(middle)
    assert client.value(lowest) == []
    for child in (by_name, by_task):
        seen = client.value(child)
        assert (seen["parent"], seen["root"]) == (middle, root)
    assert client.value(by_name)["tenant"] == "acme"
    assert client.record(lowest).meta == {"parentId": middle, "rootId": root}

    assert client.call("enqueues-in-vain") == ["UnknownTask", "InvalidArguments"]


@pytest.mark.usefixtures("worker")
def test_progress_is_seen_within_a_second(client: Desk, tmp_path: Path) -> None:
    def slowest() -> float:
        go = f"{tmp_path}/{os.urandom(4).hex()}"
        task = client.send("reports", until=go)
        until(lambda: client.record(task).state is State.RUNNING)
        took = [seconds_until(lambda: client.record(task).meta.get("progress"))]
        first = client.record(task).meta["progress"]
        assert first == {"fraction": 0.25, "message": "a quarter", "rows": 3}

        before = client.record(task).heartbeat_at
        assert before is not None
        Path(f"{go}-1").touch()
        took.append(seconds_until(lambda: (client.record(task).heartbeat_at or before) > before))
        assert client.record(task).meta["progress"] == first

        Path(f"{go}-2").touch()
        took.append(seconds_until(lambda: client.record(task).meta["progress"]["fraction"] == 0.75))
        until(lambda: client.kinds(task) == ["enqueued", "started", "progress", "heartbeat", "progress"])
        Path(f"{go}-3").touch()
        record = client.ended(task)
        assert record.meta["progress"] == {"fraction": 0.75, "message": "ü", "rows": {"done": [1, 2]}}
        assert client.events(task)[2].data == first
        return max(took)

    takes_less_than(1, slowest)


def seconds_until(condition: Callable[[], object]) -> float:
    began_at = time.monotonic()
    until(condition)
    return time.monotonic() - began_at


@pytest.mark.usefixtures("worker")
def test_progress_in_a_tight_loop_is_cheap_and_leaves_few_events(client: Desk) -> None:
    def cost() -> float:
        task = client.send("reports-often", count=100_000)
        spent = client.value(task)
        assert client.record(task).meta["progress"]["number"] == 99_999
        told = [event for event in client.events(task) if event.kind == "progress"]
        seconds = (told[-1].at - told[0].at).total_seconds()
        assert len(told) <= 2 + seconds / PAUSE_SECONDS
        return float(spent)

    takes_less_than(1.0, cost)


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("speaks", [False, True])
def test_a_record_says_how_long_a_task_really_ran(client: Desk, speaks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is told of the start late, by a start or by a report, and has it right all the same."""
    monkeypatch.setattr("stem.worker.pool.watchdog.STARTED_SECONDS", 0.4)
    client.value(client.send("takes-its-time", seconds=0.0, speaks=False))  # the worker is warm

    def is_wrong_by() -> float:
        task = client.send("takes-its-time", seconds=0.6, speaks=speaks)
        ran, record = client.value(task), client.ended(task)
        assert record.started_at is not None and record.finished_at is not None
        started = next(event for event in client.events(task) if event.kind == "started")
        assert started.at == record.started_at
        return abs((record.finished_at - record.started_at).total_seconds() - float(ran))

    takes_less_than(0.15, is_wrong_by)


@pytest.mark.usefixtures("worker")
def test_a_task_that_asks_for_a_retry_gets_it_after_its_delay(client: Desk) -> None:
    def comes_after() -> float:
        task = client.send("tries-again", delay=0.5)
        assert client.value(task) == 1
        retried, ended = (event for event in client.events(task) if event.kind in ("retried", "succeeded"))
        assert retried.data["delaySeconds"] == 0.5 and retried.data["error"]["message"] == "not yet"
        seconds = (ended.at - retried.at).total_seconds()
        assert seconds >= 0.5
        return seconds

    takes_less_than(2.0, comes_after)


@pytest.mark.usefixtures("worker")
def test_large_arguments_and_large_results_pass(client: Desk) -> None:
    """Larger than any message between supervisor and isolate; and several at once, in both directions."""
    assert client.call("measures", text="x" * 900_000) == 900_000
    assert client.call("repeats", text="ab", count=450_000) == "ab" * 450_000
    tasks = [client.send("repeats", text=str(n) * 100_000, count=9) for n in range(10)]
    assert [client.value(task) == str(n) * 900_000 for n, task in enumerate(tasks)] == [True] * 10
    sizes = [60_000, 65_000, 65_536, 66_000, 70_000]  # around the largest body that is sent along at once
    tasks = [client.send("measures", text="y" * size) for size in sizes]
    assert [client.value(task) for task in tasks] == sizes


def test_an_extended_lease_outlives_its_worker(client: Desk, durable_url: str, namespace: str, tmp_path: Path) -> None:
    store = client.app.store
    options: dict[str, Any] = {"concurrency": 2, "lease_seconds": 1.0, "reclaim_seconds": 60.0}

    def outlives() -> bool:
        marks = tmp_path / os.urandom(4).hex()
        with worker_process(durable_url, namespace, CONTEXTUAL, tmp_path, **options) as worker:
            extended = client.send("holds-on", file=str(marks), seconds=60)
            usual = client.send("holds-on", file=str(marks), seconds=None)
            until(lambda: marks.exists() and len(marks.read_text().split()) == 2)
            until(lambda: {client.record(each).state for each in (usual, extended)} == {State.RUNNING})
            # Two renewals: the extension goes with the next one, and usual ones must not cut it short.
            let_time_pass(store, 0.5)
            worker.kill()
        returned = until(lambda: store.broker.reclaim().returned)
        store.broker.purge("default")
        return returned == [usual] and client.record(extended).state is State.RUNNING

    # A worker that is halted for longer than a lease comes too late to ask for more time.
    assert any(outlives() for _ in range(3))
