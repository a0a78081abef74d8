"""One attempt, from the delivery to the decision: whatever the task does, it comes to a result."""

import asyncio
import gc
import random
import signal
import sys
import threading
import time
import timeit
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from stem import Fixed, Middleware, SoftTimeLimitExceeded, Stem, TaskContext, TaskRevoked, UsageError, current_task
from stem.client.run.admit import Admitted
from stem.client.run.attempt import AttemptResult, aattempt, attempt
from stem.client.run.context import running
from stem.core.delivery import Delivery
from stem.core.outcome import Cancelled, Dead, Done, Retry, Settlement
from stem.testing import StoreChannel


def delivered(app: Stem, function: Any, *args: Any, **options: Any) -> Delivery:
    app.task(name="it", **options)(function).enqueue(*args)
    return app.store.broker.claim(["default"], limit=1, lease_seconds=60)[0]


def inline(app: Stem, delivery: Delivery, **settings: Any) -> AttemptResult:
    return attempt(app, delivery, StoreChannel(app.store, delivery.lease), worker="w", **settings)


def on_a_loop(app: Stem, delivery: Delivery, **settings: Any) -> AttemptResult:
    async def main() -> AttemptResult:
        return await aattempt(app, delivery, StoreChannel(app.store, delivery.lease), worker="w", **settings)

    return asyncio.run(main())


@pytest.fixture(params=[inline, on_a_loop])
def run(request: pytest.FixtureRequest) -> Callable[..., AttemptResult]:
    way: Callable[..., AttemptResult] = request.param
    return way


def as_async(function: Callable[..., Any]) -> Callable[..., Any]:
    async def it() -> Any:
        await asyncio.sleep(0)
        return function()

    return it


def raising(error: BaseException) -> Callable[[], Any]:
    def it() -> Any:
        raise error

    return it


def test_a_value_is_done_and_timed(app: Stem, run: Callable[..., AttemptResult]) -> None:
    released = threading.Event()

    def it(a: int) -> int:
        released.wait(0.05)
        return a + 1

    result = run(app, delivered(app, it, 1))
    assert result.settlement == Done(msgspec.Raw(b"2"))
    assert result.run_seconds is not None and 0.05 <= result.run_seconds < 5


def test_a_rejected_delivery_never_starts(app: Stem, run: Callable[..., AttemptResult]) -> None:
    begun: list[Admitted] = []
    delivery = delivered(app, lambda: None)
    result = run(app, msgspec.structs.replace(delivery, body=b"not json"), begin=begun.append)
    assert isinstance(result.settlement, Dead)
    assert (result.settlement.reason, result.run_seconds) == ("envelope-unreadable", None)
    assert begun == []


def test_begin_comes_right_before_the_handler(app: Stem, run: Callable[..., AttemptResult]) -> None:
    order: list[Any] = []
    delivery = delivered(app, lambda: order.append("ran"), soft_limit=5, hard_limit=9)
    run(
        app,
        delivery,
        begin=lambda call: order.append((call.task.name, call.soft_limit, call.hard_limit, call.envelope.id)),
    )
    assert order == [("it", 5.0, 9.0, delivery.lease.id), "ran"]


@pytest.mark.parametrize("make", [lambda function: function, as_async])
def test_a_context_says_whether_the_handler_has_the_word(
    app: Stem, run: Callable[..., AttemptResult], make: Any
) -> None:
    said: list[Any] = []

    class Asking(Middleware):
        def error(self, context: TaskContext, error: BaseException) -> None:
            said.append(("error", context.is_running))

        def settle(self, context: TaskContext, settlement: Settlement) -> None:
            said.append(("settle", context.is_running))

    def it() -> None:
        said.append(("handler", current_task().is_running))
        raise ValueError

    app.use(Asking())
    run(app, delivered(app, make(it)), begin=lambda _: said.append(("begin", current_task().is_running)))
    assert said == [("begin", False), ("handler", True), ("error", False), ("settle", False)]


def test_an_error_raised_by_begin_is_not_the_tasks(app: Stem, run: Callable[..., AttemptResult]) -> None:
    def begin(_call: Admitted) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        run(app, delivered(app, lambda: None), begin=begin)
    with pytest.raises(UsageError):
        current_task()


@pytest.mark.parametrize("make", [lambda function: function, as_async])
@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ValueError("no"), "ValueError"),
        (MemoryError(), "MemoryError"),
        (SystemExit(3), "SystemExit"),
        (GeneratorExit(), "GeneratorExit"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (SoftTimeLimitExceeded("too long"), "stem.core.errors.SoftTimeLimitExceeded"),
        (BaseExceptionGroup("many", [KeyboardInterrupt()]), "BaseExceptionGroup"),
    ],
)
def test_any_exception_is_a_retryable_failure(app: Stem, make: Any, error: BaseException, name: str) -> None:
    result = inline(app, delivered(app, make(raising(error)), retry=7))
    assert isinstance(result.settlement, Retry)
    assert (result.settlement.delay_seconds, result.settlement.error.type) == (7.0, name)
    assert "raise error" in result.settlement.error.stack


@pytest.mark.parametrize("way", [inline, on_a_loop])
def test_a_keyboard_interrupt_can_be_left_to_the_keyboards_owner(app: Stem, way: Callable[..., AttemptResult]) -> None:
    with pytest.raises(KeyboardInterrupt):
        way(app, delivered(app, raising(KeyboardInterrupt())), catch_interrupts=False)
    with pytest.raises(UsageError):
        current_task()


@pytest.mark.parametrize("make", [lambda function: function, as_async])
@pytest.mark.parametrize(("said", "reason"), [("by ada", "by ada"), ("", "revoked")])
def test_a_revoke_that_leaves_the_handler_cancels_the_task(
    app: Stem, run: Callable[..., AttemptResult], make: Any, said: str, reason: str
) -> None:
    result = run(app, delivered(app, make(raising(TaskRevoked(said)))))
    assert result.settlement == Cancelled(reason)


@pytest.mark.parametrize("is_revoked", [True, False])
def test_a_revoke_and_a_wish_for_a_retry_count_from_within_a_task_group(
    app: Stem, run: Callable[..., AttemptResult], is_revoked: bool
) -> None:
    async def member() -> None:
        await asyncio.sleep(0)
        if is_revoked:
            raise TaskRevoked("by ada")
        current_task().retry(9, "later")

    async def it() -> None:
        async with asyncio.TaskGroup() as outer:
            async with asyncio.TaskGroup() as inner:
                inner.create_task(member())
                outer.create_task(asyncio.Event().wait())

    settlement = run(app, delivered(app, it)).settlement
    if is_revoked:
        assert settlement == Cancelled("by ada")
    else:
        assert isinstance(settlement, Retry)
        assert (settlement.delay_seconds, settlement.error.message) == (9.0, "later")


def test_a_handler_may_answer_a_soft_limit(app: Stem) -> None:
    def it() -> str:
        try:
            raise SoftTimeLimitExceeded("5 s")
        except SoftTimeLimitExceeded:
            return "cleaned up"

    assert inline(app, delivered(app, it)).settlement == Done(msgspec.Raw(b'"cleaned up"'))


@pytest.mark.parametrize("way", [inline, on_a_loop])
def test_an_async_handler_that_cancels_itself_has_failed(app: Stem, way: Callable[..., AttemptResult]) -> None:
    async def it() -> None:
        raise asyncio.CancelledError

    result = way(app, delivered(app, it, retry=3))
    assert isinstance(result.settlement, Retry)
    assert result.settlement.error.type == "RuntimeError"
    assert result.settlement.error.message == "The task cancelled itself."
    assert "CancelledError" in result.settlement.error.stack


def test_a_cancellation_that_was_asked_for_is_the_callers(app: Stem) -> None:
    seen: list[str] = []

    async def it() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cleaned up")

    async def main() -> None:
        work = asyncio.create_task(aattempt(app, delivery, StoreChannel(app.store, delivery.lease), worker="w"))
        await started.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    started, delivery = asyncio.Event(), delivered(app, it)
    asyncio.run(main())
    assert seen == ["cleaned up"]


def test_many_share_one_loop_each_with_its_own_context(app: Stem) -> None:
    @app.task(name="who")
    async def who(ctx: TaskContext, number: int) -> list[Any]:
        arrived.append(number)
        if len(arrived) == 20:
            all_there.set()
        await all_there.wait()
        return [current_task().id == ctx.id, number]

    async def main() -> list[AttemptResult]:
        return await asyncio.gather(
            *(aattempt(app, each, StoreChannel(app.store, each.lease), worker="w") for each in deliveries)
        )

    arrived: list[int] = []
    all_there = asyncio.Event()
    for number in range(20):
        who.enqueue(number)
    deliveries = app.store.broker.claim(["default"], limit=20, lease_seconds=60)
    verdicts = asyncio.run(main())
    assert [result.settlement for result in verdicts] == [
        Done(msgspec.Raw(msgspec.json.encode([True, number]))) for number in range(20)
    ]


@pytest.mark.parametrize("make", [lambda function: function, as_async])
def test_no_context_is_left_behind(app: Stem, run: Callable[..., AttemptResult], make: Any) -> None:
    run(app, delivered(app, make(raising(ValueError("no")))))
    with pytest.raises(UsageError):
        current_task()


def test_the_caller_gives_the_random_fraction(app: Stem) -> None:
    delivery = delivered(app, raising(ValueError("no")))
    delays = [
        result.settlement.delay_seconds
        for fraction in (0.0, 0.5)
        if isinstance(
            (result := inline(app, delivery, random_fraction=lambda fraction=fraction: fraction)).settlement, Retry
        )
    ]
    assert delays == [2.0, 1.5]
    assert 1.0 < inline(app, delivery).settlement.delay_seconds <= 2.0  # type: ignore[union-attr]


@pytest.mark.parametrize("wrong", [SystemExit(1), ValueError("no"), GeneratorExit()])
def test_a_retry_function_is_asked_here_and_cannot_keep_the_task_from_an_ending(
    app: Stem, wrong: BaseException
) -> None:
    seen: list[Any] = []

    def retry(attempt: int, error: Any) -> float:
        seen.append((attempt, error.type, current_task().name))
        if attempt:
            raise wrong
        return 33.0

    delivery = delivered(app, raising(KeyError("k")), retry=retry)
    first = inline(app, delivery).settlement
    second = inline(app, msgspec.structs.replace(delivery, attempt=1)).settlement
    assert isinstance(first, Retry) and isinstance(second, Retry)
    assert (first.delay_seconds, second.delay_seconds) == (33.0, 4.0)
    assert seen == [(0, "KeyError", "it"), (1, "KeyError", "it")]


def test_attempt_and_deaths_are_the_deliverys(app: Stem) -> None:
    delivery = msgspec.structs.replace(
        delivered(app, raising(ValueError("no")), max_retries=2, retry=Fixed(5)), attempt=2
    )
    settlement = inline(app, delivery).settlement
    assert isinstance(settlement, Dead) and settlement.reason == "retries-exhausted"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.parametrize(("error", "ending"), [(SoftTimeLimitExceeded, Retry), (TaskRevoked, Cancelled)])
def test_a_signal_that_raises_wherever_it_strikes_never_escapes(
    app: Stem, error: type[BaseException], ending: type[Any]
) -> None:
    """Aimed as a worker does it. Some strike the handler, some the lines around it."""
    delivery, struck = delivered(app, lambda: [str(number) for number in range(20)]), [0]

    def strike(*_: Any) -> None:
        context = running.get()
        if context is not None and context.is_running:
            struck[0] += 1
            raise error("now")

    def begin(_call: Admitted) -> None:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 3e-5))

    before, timer = (
        signal.signal(signal.SIGALRM, strike),
        signal.getitimer(signal.ITIMER_REAL),
    )  # the test's own time-out
    kinds = set()
    try:
        for _ in range(3000):
            kinds.add(type(inline(app, delivery, begin=begin).settlement))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)
    assert struck[0] > 50
    assert kinds == {Done, ending}


@pytest.mark.skipif(sys.gettrace() is not None, reason="a tracer counts too")
def test_an_attempt_costs_next_to_nothing_beside_the_work(app: Stem) -> None:
    delivery = delivered(app, lambda a: a, 1)
    channel, envelope = StoreChannel(app.store, delivery.lease), delivery.envelope
    whole = _microseconds(lambda: attempt(app, delivery, channel, worker="w"))
    assert whole < 25.0
    assert _microseconds(lambda: TaskContext(app, delivery, envelope, channel, "w")) < whole / 3


def _microseconds(work: Callable[[], object], *, runs: int = 1000) -> float:
    """Of this thread's own time, the fastest of many rounds: the others measure the neighbours."""
    gc.collect()
    return min(timeit.repeat(work, timer=time.thread_time, number=runs, repeat=30)) / runs * 1e6
