"""Signals: each is sent once, where it is said to be, and a handler that fails stops nothing."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stem import Drop, Stem, TaskHandle, chain, signals
from stem.core.decisions.autoscale import Autoscale
from stem.core.lifecycle import State
from stem.core.settings.app import Settings
from stem.scheduler.beat import Beat
from stem.worker.supervisor import Worker
from support.client.schedules import due
from support.until import until
from support.workers.processes import Desk, desk, worker_here

SIGNALLING = "support.worker_apps.signalling:app"
Heard = list[tuple[str, Any]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    """What this process hears, in order."""
    found: Heard = []
    connected: list[tuple[signals.Signal[Any], Callable[[Any], object]]] = []
    for signal in [each for each in vars(signals).values() if isinstance(each, signals.Signal)]:

        def hear(value: Any, name: str = signal.name) -> None:
            found.append((name, value))

        connected.append((signal, signal.connect(hear)))
    yield found
    for signal, handler in connected:
        signal.disconnect(handler)


@pytest.fixture
def app(tmp_path: Path, namespace: str) -> Iterator[Stem]:
    with Stem(settings=Settings(broker_url=f"sqlite:///{tmp_path}/stem.db", namespace=namespace)) as opened:
        yield opened


def names(heard: Heard, *prefixes: str) -> list[str]:
    return [name for name, _ in heard if name.startswith(prefixes or "")]


def test_a_client_hears_each_call_before_and_after_it_is_stored(app: Stem, heard: Heard) -> None:
    task = app.task(name="work")(lambda: None)
    first = task.options(unique="1m").enqueue()
    again = task.options(unique="1m").enqueue()
    asyncio.run(task.aenqueue())
    task.enqueue_many([{}, {}])
    chain(task.si(), task.si()).submit()
    assert names(heard) == ["before_enqueue", "after_enqueue"] * 3 + [
        *["before_enqueue"] * 2, *["after_enqueue"] * 2, *["before_enqueue"] * 2, *["after_enqueue"] * 2,
    ]  # fmt: skip
    stored = [value for name, value in heard if name == "after_enqueue"]
    assert (stored[0].id, stored[0].created, stored[1].id, stored[1].created) == (first.id, True, again.id, False)


def test_a_worker_in_this_process_is_heard_from_start_to_end(app: Stem, heard: Heard) -> None:
    @app.task(name="fails", max_retries=1, retry=0.01)
    def fails() -> None:
        raise ValueError("boom")

    @app.task(name="drops")
    def drops() -> None:
        raise Drop("not needed")

    good = app.task(name="good")(lambda: 1)
    with Worker(app, in_process=True, name="it"):
        handles: list[TaskHandle[Any]] = [good.enqueue(), fails.enqueue(), drops.enqueue()]
        for handle in handles:
            handle.wait(20)
    assert sorted(names(heard, "task_")) == sorted(
        [
            "task_started",
            "task_succeeded",
            *["task_started"] * 2,
            "task_retried",
            "task_failed",
            "task_started",
            "task_revoked",
        ]
    )
    failed = next(value for name, value in heard if name == "task_failed")
    assert (failed.context.name, failed.error.type, failed.run_seconds >= 0) == ("fails", "ValueError", True)
    phases = [(name, value.worker, value.mode) for name, value in heard if name.startswith("worker_")]
    assert phases == [("worker_ready", "it", None), ("worker_draining", "it", "warm"), ("worker_stopped", "it", "warm")]


def test_isolates_hear_their_tasks_and_the_supervisor_hears_its_own(
    durable_url: str, namespace: str, tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "heard"
    monkeypatch.setenv("HEARD", str(file))

    def told() -> list[str]:
        return file.read_text().splitlines() if file.exists() else []

    with desk(durable_url, namespace) as client, worker_here(durable_url, namespace, SIGNALLING, concurrency=1):
        ids = [client.send(name) for name in ("quick", "broken", "dropped", "parent")]
        for id in ids:
            client.ended(id)
        client.value(client.value(ids[3]))
        counts = {name: told().count(name) for name in set(told())}
        assert counts.pop("isolate_started") >= 1
        assert counts == {
            "task_started": 6, "task_succeeded": 3, "task_retried": 1, "task_failed": 1, "task_revoked": 1,
            "before_enqueue": 1, "after_enqueue": 1,
        }  # fmt: skip
        client.app.control.ask("recycle", {})
        until(lambda: names(heard, "isolate_"))
    assert names(heard, "isolate_", "task_") == ["isolate_recycled"]


def test_growing_and_shrinking_is_heard(app: Stem, heard: Heard) -> None:
    import threading

    go = threading.Event()
    task = app.task(name="wait")(lambda: go.wait(20) and None)
    scale = Autoscale(enabled=True, minimum=1, maximum=3, tick_seconds=0.05, scale_up_cool_down_seconds=0.0)
    with Worker(app, in_process=True, concurrency=1, autoscale=scale):
        for _ in range(20):
            task.enqueue()
        until(lambda: names(heard, "autoscaled"))
        go.set()
    scaled = next(value for name, value in heard if name == "autoscaled")
    assert scaled.after > scaled.before >= 1 and scaled.reason


def test_a_scheduler_hears_what_it_fires(app: Stem, heard: Heard) -> None:
    app.task(name="note")(lambda text="": None)
    instant = due(app)
    assert Beat(app, "a").tick() == 1
    ((_, fired),) = [each for each in heard if each[0] == "schedule_fired"]
    assert (fired.schedule, fired.instant, fired.task) == ("it", instant, "note")
    assert app.handle(fired.task_id).status().meta["schedule"] == "it"


def test_a_handler_that_fails_stops_nothing(app: Stem, heard: Heard, caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: object) -> None:
        raise SystemExit("no more")

    signals.before_enqueue.connect(fails)
    try:
        app.enqueue("work", check=False)
    finally:
        signals.before_enqueue.disconnect(fails)
    assert names(heard) == ["before_enqueue", "after_enqueue"]
    assert "signal.failed signal=before_enqueue" in caplog.text


def test_connecting_twice_is_once() -> None:
    found: list[int] = []
    signal: signals.Signal[int] = signals.Signal("mine")
    signal.connect(found.append)
    signal.connect(found.append)
    signal.send(1)
    signal.disconnect(found.append)
    signal.send(2)
    assert found == [1]


def test_what_the_supervisor_decides_is_heard_there_and_once(
    tmp_path: Path, namespace: str, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash, a hard limit and a kill, which no isolate can tell of; and a revoke, which the isolate tells unless it is
    killed."""
    file, url = tmp_path / "heard", f"sqlite:///{tmp_path}/stem.db"
    monkeypatch.setenv("HEARD", str(file))

    def told(name: str) -> int:
        return file.read_text().split().count(name) if file.exists() else 0

    def was_told(count: int) -> bool:
        return told("task_revoked") >= count

    def is_running(client: Desk, task_id: str) -> bool:
        return client.record(task_id).state is State.RUNNING

    def here(task_id: str) -> list[str]:
        return [name for name, value in list(heard) if name.startswith("task_") and value.task_id == task_id]

    with desk(url, namespace) as client, worker_here(url, namespace, SIGNALLING, concurrency=2, grace_seconds=0.5):
        crashed = client.send("crashes")
        assert client.ended(crashed).state is State.FAILED
        overdue = client.send("endless", {"hard_limit": 0.2, "max_retries": 0})
        assert client.ended(overdue).state is State.FAILED
        coroutine = client.send("endless-async", {"hard_limit": 0.2, "max_retries": 0})
        assert client.ended(coroutine).state is State.FAILED
        until(lambda: here(crashed) and here(overdue) and here(coroutine))
        assert here(crashed) == here(overdue) == here(coroutine) == ["task_failed"]
        assert (told("task_failed"), told("task_retried"), told("task_revoked")) == (0, 0, 0)

        for name, signal, there in (("endless", "SIGTERM", 1), ("stubborn", "SIGKILL", 0)):
            before, running = told("task_revoked"), client.send(name)
            until(partial(is_running, client, running))
            client.app.control.revoke(running, terminate=True, signal=signal)
            assert client.ended(running).state is State.CANCELLED
            if there:
                until(partial(was_told, before + 1))
            else:
                until(partial(here, running))
            assert (told("task_revoked") - before, here(running)) == (there, [] if there else ["task_revoked"])

        unfit = client.send("quick", nonsense=1)
        assert client.ended(unfit).state is State.FAILED
        assert (told("task_failed"), here(unfit)) == (1, [])
    failed = next(value for name, value in heard if name == "task_failed" and value.task_id == overdue)
    assert (failed.name, failed.queue, failed.attempt, failed.context) == ("endless", "default", 0, None)
    assert failed.run_seconds >= 0.2 and "0.2" in failed.error.message


def test_a_run_that_goes_back_to_its_queue_has_not_ended(
    tmp_path: Path, namespace: str, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, url = tmp_path / "heard", f"sqlite:///{tmp_path}/stem.db"
    monkeypatch.setenv("HEARD", str(file))
    with desk(url, namespace) as client:
        with worker_here(url, namespace, SIGNALLING, concurrency=1) as worker:
            running = client.send("endless")
            until(lambda: client.record(running).state is State.RUNNING)
            worker.close("soft")
        assert client.record(running).state is not State.CANCELLED
    assert "task_revoked" not in file.read_text() and names(heard, "task_") == []
