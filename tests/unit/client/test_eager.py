"""Eager mode takes the same path as a worker, at once, with a clock that the test moves."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stem import State, Stem, TaskFailed, WaitTimeout
from stem.core.lifecycle import EventKind
from stem.testing import FakeClock, eager, run_pending


def test_enqueue_runs_the_task_at_once_and_leaves_the_apps_store_alone(app: Stem) -> None:
    @app.task
    def add(a: int, b: int = 2) -> int:
        return a + b

    outside = add.enqueue(1)
    with eager(app):
        assert add.enqueue(1).get() == 3
        assert app.handle(add.enqueue(5).id).get() == 7
    assert outside.status().state is State.QUEUED
    assert run_pending(app) == 1


def test_arguments_and_results_pass_through_json(app: Stem) -> None:
    seen: list[Any] = []

    @app.task
    def keep(what):  # type: ignore[no-untyped-def]
        seen.append(what)
        return {"pair": (1, 2)}

    with eager(app):
        assert keep.enqueue((1, {2: 3})).get() == {"pair": [1, 2]}
    assert seen == [[1, {"2": 3}]]


def test_retries_run_when_the_clock_is_moved_each_at_its_own_moment(app: Stem) -> None:
    attempts: list[float] = []
    with eager(app) as world:

        @app.task(retry=[10, 20], max_retries=2)
        def flaky() -> str:
            attempts.append(world.clock())
            if len(attempts) < 3:
                raise ValueError
            return "at last"

        began = world.clock()
        handle = flaky.enqueue()
        assert handle.status().state is State.RETRIED
        with pytest.raises(WaitTimeout, match="advance the clock"):
            handle.get()
        with pytest.raises(WaitTimeout, match="advance the clock"):
            asyncio.run(handle.aget())
        world.clock.advance(9)
        assert len(attempts) == 1
        world.clock.advance(60)
        assert handle.get() == "at last"
    assert [at - began for at in attempts] == [0, 10, 30]


def test_a_delayed_task_waits_for_the_clock(app: Stem) -> None:
    work = app.task(name="work")(lambda: 1)
    with eager(app) as world:
        handle = work.options(delay=60).enqueue()
        assert handle.status().state is State.QUEUED
        assert world.run_pending() == 0
        world.clock.advance(60)
        assert handle.get() == 1


def test_a_failure_is_recorded_as_it_would_be(app: Stem) -> None:
    @app.task(max_retries=0)
    def fails() -> None:
        raise ValueError("no")

    with eager(app):
        handle = fails.enqueue()
        with pytest.raises(TaskFailed, match="ValueError: no"):
            handle.get()
        assert app.store.deadletters.get(handle.id) is not None
        kinds = [event.kind for event in app.store.events.read(None, limit=9)]
    assert kinds == [EventKind.ENQUEUED, EventKind.STARTED, EventKind.FAILED, EventKind.DEAD_LETTERED]


def test_a_task_may_enqueue_another_and_read_its_result(app: Stem) -> None:
    inner = app.task(name="inner")(lambda number: number + 1)
    outer = app.task(name="outer")(lambda number: inner.enqueue(number).get() * 10)
    with eager(app):
        assert outer.enqueue(1).get() == 20


def test_async_code_runs_eagerly(app: Stem) -> None:
    @app.task
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    async def main() -> tuple[int, int]:
        return await (await double.aenqueue(2)), await double.enqueue(3)

    with eager(app):
        assert asyncio.run(main()) == (4, 6)


def test_the_apps_own_store_is_back_after_an_error(app: Stem) -> None:
    store = app.store
    with pytest.raises(RuntimeError), eager(app):
        raise RuntimeError
    assert app.store is store


def test_run_pending_takes_only_what_it_is_told_to(app: Stem) -> None:
    work = app.task(name="work")(lambda: None)
    for queue in ("a", "a", "b"):
        work.options(queue=queue).enqueue()
    assert run_pending(app, queues=["a"], limit=1) == 1
    assert run_pending(app, queues=["b"]) == 1
    assert run_pending(app) == 1


def test_code_that_joins_a_transaction_can_be_tested_without_one(app: Stem) -> None:
    work = app.task(name="work")(lambda: 1)
    with eager(app):
        assert work.options(connection=object()).enqueue().get() == 1


def test_closing_the_app_within_never_reaches_the_apps_own_store(app: Stem) -> None:
    ran: list[int] = []
    charge = app.task(name="charge")(lambda number: ran.append(number))
    charge.enqueue(1)
    with eager(app):
        charge.enqueue(2)
        with app:
            pass
        charge.enqueue(3)
    assert ran == [2, 3]
    assert app.store.broker.depth()["default"].ready == 1


def test_a_child_forked_within_stays_within_and_opens_its_own_store_afterwards(tmp_path: Path) -> None:
    script = """
import os, sys
from stem import Stem
from stem.testing import eager
app, ran = Stem("sqlite:///real.db"), []
charge = app.task(name="charge")(lambda number: ran.append(number))
charge.enqueue(1)
before = app.store
with eager(app):
    child = os.fork()
    charge.enqueue(2)
assert ran == [2], ran
assert (app.store is before) == (child != 0)
if child == 0:
    os._exit(0)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path, timeout=30)


def test_calls_enqueued_by_a_task_run_after_it_however_long_the_chain(app: Stem) -> None:
    order: list[int] = []

    @app.task(name="step", max_retries=0)
    def step(number: int) -> None:
        if number < 300:
            step.enqueue(number + 1)
        order.append(number)

    with eager(app):
        step.enqueue(1)
        assert order == list(range(1, 301))


def test_an_async_task_may_await_what_it_enqueues_also_under_a_running_loop(app: Stem) -> None:
    @app.task(name="inner")
    async def inner(number: int) -> int:
        return number + 1

    @app.task(name="outer")
    async def outer(number: int) -> int:
        return await (await inner.aenqueue(number)) * 10

    async def main() -> int:
        return await outer.enqueue(1)

    with eager(app):
        assert outer.enqueue(1).get() == 20
        assert asyncio.run(main()) == 20


def test_a_task_of_another_app_runs_eagerly(app: Stem) -> None:
    with Stem("memory://another-app") as other:
        inner = other.task(name="inner")(lambda: "done")
        outer = app.task(name="outer")(lambda: inner.enqueue().status().state)
        with eager(app), eager(other):
            assert outer.enqueue().get() == "succeeded"


def test_a_task_whose_run_was_cut_off_runs_again_once_its_lease_is_over(app: Stem) -> None:
    work = app.task(name="work")(lambda: 1)
    with eager(app) as world:
        handle = work.options(delay=1).enqueue()
        FakeClock.advance(world.clock, 2)
        app.store.broker.claim(["default"], limit=1, lease_seconds=60)
        assert world.run_pending() == 0
        FakeClock.advance(world.clock, 61)
        assert world.run_pending() == 1
        assert handle.get() == 1
