"""A handle tells a task's state, waits no longer than it is told to, and gives its value or its failure."""

import asyncio
import json
import pickle
import time
from collections.abc import Callable
from functools import partial
from threading import Event, Thread
from threading import enumerate as threads
from typing import Any

import pytest

from stem import (
    InvalidTask,
    State,
    Stem,
    StoreUnavailable,
    TaskCancelled,
    TaskFailed,
    TaskNotFound,
    WaitTimeout,
    Worker,
)
from stem.client.send.watcher import _Wait
from stem.testing import run_pending
from support.background import takes_less_than


@pytest.fixture
def work(app: Stem) -> Any:
    @app.task(name="work", max_retries=0)
    def work(what: str) -> tuple[str, int]:
        if what == "fail":
            raise ValueError("it failed")
        return what, 1

    return work


def test_an_unknown_id_raises_at_once(app: Stem) -> None:
    handle = app.handle("nobody")
    began = time.monotonic()
    for ask in (
        handle.status,
        lambda: handle.get(timeout=30),
        lambda: handle.wait(30),
        lambda: asyncio.run(handle.aget(30)),
    ):
        with pytest.raises(TaskNotFound, match="There is no task nobody"):
            ask()
    assert time.monotonic() - began < 25


def test_an_odd_id_is_refused_before_it_is_looked_for(app: Stem) -> None:
    with pytest.raises(InvalidTask):
        app.handle("a b")


def test_waiting_ends_on_time(work: Any) -> None:
    handle = work.enqueue("later")
    waits: list[Callable[[], object]] = [
        lambda: handle.get(0.2),
        lambda: handle.wait(0.2),
        lambda: asyncio.run(handle.aget(0.2)),
    ]

    def seconds(ask: Callable[[], object]) -> float:
        began = time.monotonic()
        with pytest.raises(
            WaitTimeout, match=r"has not ended within 0\.2 s and is queued; no worker serves queue .default."
        ):
            ask()
        taken = time.monotonic() - began
        assert taken > 0.15
        return taken

    for ask in waits:
        takes_less_than(1.0, partial(seconds, ask))
    with pytest.raises(TimeoutError):
        handle.get(timeout=-1)


def test_the_value_has_the_annotated_type_by_any_handle(app: Stem, work: Any) -> None:
    handle = work.enqueue("x")
    run_pending(app)
    assert handle.get() == ("x", 1)
    assert app.handle(handle.id).get() == ("x", 1)
    assert handle.wait().state is State.SUCCEEDED


def test_a_failure_and_a_cancellation_are_raised_with_their_reason(app: Stem, work: Any) -> None:
    failed = work.enqueue("fail")
    run_pending(app)
    with pytest.raises(TaskFailed, match=r"\(work\) failed after 1 attempt: ValueError: it failed"):
        failed.get(20)
    cancelled = work.enqueue("x")
    app.store.broker.purge("default")
    with pytest.raises(TaskCancelled, match="purged"):
        cancelled.get(20)
    with pytest.raises(TaskCancelled):
        asyncio.run(cancelled.aget(20))


def test_two_hundred_awaits_share_one_thread(app: Stem, work: Any) -> None:
    others = set(threads())  # of apps that were closed a moment ago

    async def await_all() -> list[Any]:
        handles = [await work.aenqueue(str(number)) for number in range(200)]
        waits = [asyncio.ensure_future(handle.aget(30)) for handle in handles]
        await asyncio.sleep(0)
        worker = asyncio.to_thread(run_pending, app)
        results = await asyncio.gather(*waits, worker)
        assert sum(thread.name == "stem-watcher" for thread in set(threads()) - others) <= 1
        return results[:-1]

    assert asyncio.run(await_all()) == [(str(number), 1) for number in range(200)]


def test_a_task_that_ends_while_it_is_awaited_wakes_the_waiter_soon(app: Stem, work: Any) -> None:
    async def wait() -> float:
        handle = await work.aenqueue("x")
        waiting = asyncio.ensure_future(handle)
        while not app.store_connection.watcher._waits:
            await asyncio.sleep(0.005)
        Thread(target=run_pending, args=(app,)).start()
        began = time.monotonic()
        assert await waiting == ("x", 1)
        return time.monotonic() - began

    takes_less_than(1.5, lambda: asyncio.run(wait()))


def test_a_cancelled_await_leaves_nothing_behind(app: Stem, work: Any) -> None:
    async def wait() -> None:
        waiting = asyncio.ensure_future((await work.aenqueue("x")).aget())
        while not app.store_connection.watcher._waits:
            await asyncio.sleep(0.005)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(wait())
    assert app.store_connection.watcher._waits == {}


def test_closing_the_app_ends_the_awaits(app: Stem, work: Any) -> None:
    async def wait() -> None:
        waiting = asyncio.ensure_future((await work.aenqueue("x")).aget())
        while not app.store_connection.watcher._waits:
            await asyncio.sleep(0.005)
        app.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            await asyncio.wait_for(waiting, 20)

    asyncio.run(wait())


def test_an_await_that_begins_as_the_app_is_closed_is_refused_and_does_not_hang(app: Stem, work: Any) -> None:
    async def wait() -> None:
        handle, watcher = await work.aenqueue("x"), app.store_connection.watcher
        app.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            await asyncio.wait_for(watcher.ended(handle.id), 20)

    asyncio.run(wait())


def test_an_answer_to_a_loop_that_is_gone_leaves_the_others_theirs(app: Stem, work: Any) -> None:
    gone = asyncio.new_event_loop()
    closing = _Wait(gone, gone.create_future())
    gone.close()
    gone.is_closed = lambda: False  # type: ignore[method-assign]  # as seen just before it closed

    async def wait() -> Any:
        handle = await work.aenqueue("x")
        waiting = asyncio.ensure_future(handle.aget(30))
        while not app.store_connection.watcher._waits:
            await asyncio.sleep(0.005)
        app.store_connection.watcher._waits[handle.id].insert(0, closing)
        await asyncio.to_thread(run_pending, app)
        return await asyncio.wait_for(waiting, 20)

    assert asyncio.run(wait()) == ("x", 1)
    del gone.is_closed


def test_a_handle_says_what_to_send_in_its_place(work: Any) -> None:
    with pytest.raises(TypeError, match=r"send its id, and ask app\.handle\(id\) there"):
        pickle.dumps(work.enqueue("x"))


def test_a_failure_carries_the_record_the_error_and_the_traceback_of_the_task(app: Stem, work: Any) -> None:
    handle = work.enqueue("fail")
    run_pending(app)
    with pytest.raises(TaskFailed) as failed:
        handle.get(0)
    assert failed.value.record == handle.status()
    assert failed.value.error is not None and failed.value.error.type == "ValueError"
    assert 'raise ValueError("it failed")' in str(failed.value.__cause__)
    assert pickle.loads(pickle.dumps(failed.value)).record == failed.value.record


def test_handles_of_one_task_are_equal(app: Stem, work: Any) -> None:
    handle = work.enqueue("once")
    assert handle == app.handle(handle.id) and len({handle, app.handle(handle.id)}) == 1
    assert handle != work.enqueue("again") and handle != handle.id
    with Stem("memory://elsewhere") as other:
        assert handle != other.handle(handle.id)


def test_a_record_is_plain_json_for_a_web_handler(app: Stem, work: Any) -> None:
    done, failed = work.enqueue("fine"), work.enqueue("fail")
    run_pending(app)
    told = json.loads(json.dumps(done.status().to_dict()))
    assert told["id"] == done.id and told["status"] == "succeeded" and told["payload"] == ["fine", 1]
    assert failed.status().to_dict()["error"]["type"] == "ValueError"


def test_a_wait_in_vain_says_once_that_no_worker_serves_the_queue(
    work: Any, app: Stem, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("stem.client.send.handle.SILENT_SECONDS", 0.05)
    handle = work.enqueue("later")
    for wait in (handle.get, lambda timeout: asyncio.run(handle.aget(timeout))):
        caplog.clear()
        with pytest.raises(WaitTimeout, match="no worker serves queue 'default'; start one with: stem worker start"):
            wait(0.5)
        assert [record.message for record in caplog.records] == [
            f"task.unserved id={handle.id}: no worker serves queue 'default'; "
            "start one with: stem worker start --app MODULE:NAME"
        ]
    with Worker(app, in_process=True, queues=("other",)):
        with pytest.raises(WaitTimeout, match="no worker serves queue"):
            handle.get(0.2)
    hold = Event()
    app.task(name="hold")(lambda: hold.wait(20) and None)
    with Worker(app, in_process=True):
        try:
            held = app.enqueue("hold")
            with pytest.raises(WaitTimeout, match="the task itself is unaffected"):
                held.get(0.5)
        finally:
            hold.set()
