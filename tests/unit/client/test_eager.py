"""Eager mode takes the same path as a worker, at once, with a clock that the test moves."""

import asyncio
from typing import Any

import pytest

from stem import State, Stem, TaskFailed, WaitTimeout
from stem.core.lifecycle import EventKind
from stem.testing import eager, run_pending


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


def test_what_the_task_gets_and_gives_has_been_json(app: Stem) -> None:
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


def test_async_code_is_eager_too(app: Stem) -> None:
    @app.task
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    async def main() -> tuple[int, int]:
        return await (await double.aenqueue(2)), await double.enqueue(3)

    with eager(app):
        assert asyncio.run(main()) == (4, 6)


def test_what_was_there_is_back_after_an_error(app: Stem) -> None:
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
