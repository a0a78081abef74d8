"""Signals: each is sent once, where it is said to be, and a handler that fails stops nothing."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stem import Drop, Stem, TaskHandle, chain, signals
from stem.core.decisions.autoscale import Autoscale
from stem.core.settings.app import Settings
from stem.scheduler.beat import Beat
from stem.worker.supervisor import Worker
from support.client.schedules import due
from support.until import until
from support.workers.processes import desk, worker_here

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
