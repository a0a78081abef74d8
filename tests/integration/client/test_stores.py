"""The client over every store: what one process enqueues, another reads, and waiting is by notification."""

import asyncio
import base64
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stem import Bulk, State, Stem, TaskFailed, TaskNotFound, WaitTimeout
from stem.testing import run_pending
from support.background import in_thread, is_waiting, takes_less_than, timed

TASKS = """
import os, sys
from stem import Stem
from stem.testing import run_pending
app = Stem(os.environ["TEST_URL"], namespace=os.environ["TEST_NAMESPACE"])
@app.task(name="double", max_retries=0)
def double(number: int) -> int:
    if number < 0:
        raise ValueError("negative")
    return 2 * number
"""


@pytest.fixture
def app(store_url: str, namespace: str) -> Iterator[Stem]:
    with made(store_url, namespace) as opened:
        yield opened


def made(url: str, namespace: str, **options: Any) -> Stem:
    app = Stem(url, namespace=namespace, retry=0, **options)

    @app.task(name="double", max_retries=0)
    def double(number: int) -> int:
        if number < 0:
            raise ValueError("negative")
        return 2 * number

    return app


@contextmanager
def child(script: str, url: str, namespace: str, tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    with subprocess.Popen(
        [sys.executable, "-c", TASKS + script],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={"TEST_URL": url, "TEST_NAMESPACE": namespace},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_task_goes_from_queued_to_its_value(app: Stem) -> None:
    handle = app.tasks["double"].enqueue(21)
    assert handle.status().state is State.QUEUED
    assert run_pending(app) == 1
    assert handle.get(timeout=5) == 42
    record = handle.status()
    assert (record.state, record.attempt, record.error) == (State.SUCCEEDED, 0, None)
    assert record.started_at is not None and record.finished_at is not None


def test_a_failure_is_kept_with_its_error_and_parked(app: Stem) -> None:
    handle = app.tasks["double"].enqueue(-1)
    run_pending(app)
    with pytest.raises(TaskFailed, match="ValueError: negative"):
        handle.get(5)
    letter = app.store.deadletters.get(handle.id)
    assert letter is not None and letter.reason == "retries-exhausted"
    assert letter.error is not None and "in double" in letter.error.stack


def test_waiting_ends_on_time_and_an_unknown_id_raises_at_once(app: Stem) -> None:
    handle = app.tasks["double"].enqueue(1)

    def waits() -> float:
        began = time.monotonic()
        with pytest.raises(WaitTimeout):
            handle.get(0.3)
        waited = time.monotonic() - began
        assert waited > 0.25
        return waited

    def asks() -> float:
        began = time.monotonic()
        with pytest.raises(TaskNotFound):
            app.handle("nobody").get(30)
        return time.monotonic() - began

    takes_less_than(2, waits)
    takes_less_than(2, asks)


def test_another_thread_settles_and_the_waiter_wakes_soon(app: Stem) -> None:
    def wakes() -> float:
        handle = app.tasks["double"].enqueue(4)
        waiter = in_thread(lambda: timed(lambda: handle.get(20)))
        assert is_waiting(waiter)
        run_pending(app)
        settled_at = time.monotonic()
        value, woken_at = waiter.result(20)
        assert value == 8
        return woken_at - settled_at

    takes_less_than(1.5, wakes)


def test_two_hundred_awaits_at_once(app: Stem) -> None:
    async def main() -> list[object]:
        handles = [await app.tasks["double"].aenqueue(number) for number in range(200)]
        waits = [asyncio.ensure_future(handle.aget(60)) for handle in handles]
        await asyncio.to_thread(run_pending, app)
        return list(await asyncio.gather(*waits))

    assert asyncio.run(main()) == [2 * number for number in range(200)]


def test_bulk_is_idempotent_by_ids(app: Stem) -> None:
    double = app.tasks["double"]
    ids = [f"n:{number}" for number in range(2500)]
    assert double.enqueue_many(double.options(id=i).item(1) for i in ids[:1500]) == Bulk(1500, 0)
    assert double.enqueue_many(double.options(id=i).item(1) for i in ids) == Bulk(1000, 1500)
    assert app.store.broker.depth()["default"].ready == 2500


def test_a_duplicate_of_a_unique_task_has_the_first_ones_id(app: Stem) -> None:
    build = app.task(name="build", unique="until_done")(lambda what: what)
    first = build.options(headers={"traceparent": "a"}).enqueue("x")
    second = build.options(headers={"traceparent": "b"}).enqueue("x")
    assert (second.id, second.created) == (first.id, False)
    assert run_pending(app) == 1
    assert build.enqueue("x").id != first.id


def test_tampering_in_the_store_is_parked_and_rotation_is_not(store_url: str, namespace: str) -> None:
    old, new = (f"{name}:hmac-sha256:{base64.b64encode(name.encode() * 16).decode()}" for name in ("old", "new"))
    with (
        made(store_url, namespace) as stranger,
        made(store_url, namespace, signing_keys=old) as sender,
        made(store_url, namespace, signing_keys=f"{new},{old}") as worker,
    ):
        unsigned = stranger.tasks["double"].enqueue(1)
        signed = sender.tasks["double"].options(meta={"a": 1.0}, delay=0, visibility_timeout=30).enqueue(2)
        assert run_pending(worker) == 2
        assert signed.get(5) == 4
        letter = worker.store.deadletters.get(unsigned.id)
        assert letter is not None and letter.reason == "signature-invalid"


def test_a_child_process_settles_what_is_enqueued_here(durable_url: str, namespace: str, tmp_path: Path) -> None:
    script = "assert app.store.broker.wait(['default'], timeout_seconds=20); run_pending(app)"
    with made(durable_url, namespace) as app:
        handles = [app.tasks["double"].enqueue(number) for number in (1, 2, -3)]
        with child(script, durable_url, namespace, tmp_path) as worker:
            assert [handle.get(30) for handle in handles[:2]] == [2, 4]
            with pytest.raises(TaskFailed):
                handles[2].get(30)
            assert worker.wait(30) == 0


def test_a_call_enqueued_by_a_child_process_is_read_and_run_here(
    durable_url: str, namespace: str, tmp_path: Path
) -> None:
    with child("print(double.enqueue(5).id)", durable_url, namespace, tmp_path) as sender:
        task_id = sender.communicate(timeout=30)[0].strip()
    with made(durable_url, namespace) as app:
        assert app.handle(task_id).status().state is State.QUEUED
        run_pending(app)
        assert app.handle(task_id).get(5) == 10


def test_a_waiter_in_a_child_process_is_woken_from_here(durable_url: str, namespace: str, tmp_path: Path) -> None:
    script = """
import time
handle = double.enqueue(6)
print(handle.id, flush=True)
print(handle.get(30), time.time(), flush=True)
"""

    def wakes() -> float:
        with made(durable_url, namespace) as app, child(script, durable_url, namespace, tmp_path) as waiter:
            assert waiter.stdout is not None
            task_id = waiter.stdout.readline().strip()
            assert app.handle(task_id).status().state is State.QUEUED
            with pytest.raises(subprocess.TimeoutExpired):
                waiter.wait(0.3)  # it sleeps
            run_pending(app)
            settled_at = time.time()
            value, woken_at = waiter.communicate(timeout=30)[0].split()
        assert value == "12"
        return float(woken_at) - settled_at

    takes_less_than(2.0, wakes)


def test_a_forked_child_leaves_its_parents_connections_alone(durable_url: str, namespace: str, tmp_path: Path) -> None:
    script = """
double.enqueue(1)
pid = os.fork()
if pid == 0:
    double.options(id="from-the-child").enqueue(2)
    app.close()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
double.enqueue(3)
assert run_pending(app) == 3
print(app.handle("from-the-child").get(5))
app.close()
"""
    with child(script, durable_url, namespace, tmp_path) as process:
        assert process.communicate(timeout=30)[0].strip() == "4"
        assert process.returncode == 0
