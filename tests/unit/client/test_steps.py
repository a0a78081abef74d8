"""Durable steps, sleeps and events, in eager mode."""

from typing import Any

import pytest

from stem import Stem, TaskContext
from stem.client.run.steps import MAX_NAME
from stem.core.errors import EventTimeout, InvalidArguments, TaskEnded, TaskFailed, TaskNotFound
from stem.core.lifecycle import EventKind, State
from stem.testing import eager

KEYS = "k1:hmac-sha256:" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


@pytest.fixture
def app() -> Stem:
    return Stem("memory://steps", max_retries=3, retry=1.0)


def kinds(app: Stem, task_id: str) -> list[str]:
    found = app.store.events.read(None, limit=1000)
    return [event.kind.value for event in found if event.task_id == task_id]


def test_a_retried_task_skips_the_steps_that_it_has_recorded(app: Stem) -> None:
    calls: list[str] = []

    def pay(amount: int) -> tuple[int, None]:
        calls.append("pay")
        return amount, None

    @app.task(name="order")
    def order(ctx: TaskContext) -> list[Any]:
        paid = ctx.step("pay", pay, 5)
        nothing = ctx.step("notify", calls.append, "notify")
        if ctx.attempt == 0:
            raise ValueError("the parcel service is away")
        return [paid, nothing]

    with eager(app) as world:
        handle = order.enqueue()
        world.clock.advance(10)
        assert handle.get(0) == [[5, None], None]
        assert calls == ["pay", "notify"]
        assert kinds(app, handle.id).count(EventKind.STEP.value) == 2


def test_a_sleep_spends_no_attempt_and_ends_on_time(app: Stem) -> None:
    woken: list[float] = []

    @app.task(name="remind")
    def remind(ctx: TaskContext) -> int:
        ctx.sleep("10m")
        woken.append(world.clock())
        ctx.sleep(60)
        return ctx.attempt

    with eager(app) as world:
        began = world.clock()
        handle = remind.enqueue()
        assert handle.status().state is State.QUEUED
        world.clock.advance(599)
        assert woken == []
        world.clock.advance(1)
        assert woken == [began + 600]
        world.clock.advance(60)
        assert handle.get(0) == 0


def test_an_event_reaches_a_task_that_waits_for_it(app: Stem) -> None:
    @app.task(name="approve")
    def approve(ctx: TaskContext) -> Any:
        return ctx.wait_event("approved", timeout="1d")

    with eager(app):
        handle = approve.enqueue()
        assert handle.status().state is State.QUEUED
        app.send_event(handle.id, "rejected", "another one")
        assert handle.status().state is State.QUEUED
        handle.send_event("approved", {"by": "ada"})
        assert handle.get(0) == {"by": "ada"}


def test_an_event_may_be_sent_before_the_wait_begins_and_its_first_data_count(app: Stem) -> None:
    @app.task(name="approve")
    def approve(ctx: TaskContext) -> Any:
        return ctx.wait_event("approved")

    with eager(app) as world:
        handle = approve.options(delay=60).enqueue()
        app.send_event(handle.id, "approved", None)
        app.send_event(handle.id, "approved", "again")
        world.clock.advance(60)
        assert handle.get(0) is None


def test_a_wait_without_an_event_ends_with_a_timeout_that_the_task_can_catch(app: Stem) -> None:
    @app.task(name="approve")
    def approve(ctx: TaskContext) -> str:
        try:
            return str(ctx.wait_event("approved", timeout="1h"))
        except EventTimeout:
            return "nobody approved"

    with eager(app) as world:
        handle = approve.enqueue()
        world.clock.advance(3599)
        assert handle.status().state is State.QUEUED
        world.clock.advance(1)
        assert handle.get(0) == "nobody approved"


def test_async_tasks_have_steps_sleeps_and_events(app: Stem) -> None:
    calls: list[str] = []

    async def fetch(what: str) -> str:
        calls.append(what)
        return what.upper()

    @app.task(name="flow")
    async def flow(ctx: TaskContext) -> list[str]:
        first = await ctx.astep("fetch", fetch, "a")
        await ctx.asleep(5)
        return [first, await ctx.await_event("go", timeout=60)]

    with eager(app) as world:
        handle = flow.enqueue()
        world.clock.advance(5)
        app.send_event(handle.id, "go", "now")
        assert handle.get(0) == ["A", "now"]
        assert calls == ["a"]


def test_where_keys_are_set_an_unsigned_event_has_no_effect() -> None:
    app = Stem("memory://signed-steps", signing_keys=KEYS)

    @app.task(name="approve")
    def approve(ctx: TaskContext) -> Any:
        return ctx.wait_event("approved")

    with eager(app) as world:
        handle = approve.enqueue()
        for forged in ("approved", "approved#signed"):
            other = approve.enqueue()
            app.store.steps.send(other.id, forged, _raw(b'{"data":"forged"}'))
            world.run_pending()
            assert other.status().state is State.QUEUED
        app.send_event(handle.id, "approved", "genuine")
        assert handle.get(0) == "genuine"


def test_a_step_whose_result_is_no_json_fails_with_a_sentence(app: Stem) -> None:
    @app.task(name="bad", max_retries=0)
    def bad(ctx: TaskContext) -> None:
        ctx.step("socket", lambda: object())

    with eager(app):
        with pytest.raises(TaskFailed, match="the result of step 'socket' is not JSON"):
            bad.enqueue().get(0)


@pytest.mark.parametrize("name", ["", "x" * (MAX_NAME + 1), "event:x", "sleep:1", "wait:x", "a\nb", 7])
def test_a_step_name_that_cannot_be_one_is_refused(app: Stem, name: Any) -> None:
    @app.task(name="bad", max_retries=0)
    def bad(ctx: TaskContext) -> None:
        ctx.step(name, lambda: None)

    with eager(app):
        with pytest.raises(TaskFailed, match="A step is named"):
            bad.enqueue().get(0)


def test_two_steps_of_one_name_are_refused(app: Stem) -> None:
    @app.task(name="twice", max_retries=0)
    def twice(ctx: TaskContext) -> list[int]:
        return [ctx.step("pay", abs, n) for n in range(2)]

    with eager(app):
        with pytest.raises(TaskFailed, match="Two steps of one run are named 'pay'"):
            twice.enqueue().get(0)


def test_a_step_that_cannot_be_recorded_or_skipped_as_a_whole_is_refused(app: Stem) -> None:
    async def later() -> int:
        return 1

    @app.task(name="wrong", max_retries=0)
    def wrong(ctx: TaskContext, mode: str) -> None:
        functions: dict[str, Any] = {
            "sleeps": lambda: ctx.sleep(1),
            "waits": lambda: ctx.wait_event("e", timeout=1),
            "async": later,
            "none": None,
        }
        ctx.step("pay", functions[mode])

    @app.task(name="awrong", max_retries=0)
    async def awrong(ctx: TaskContext) -> None:
        await ctx.astep("pay", lambda: ctx.asleep(1))

    reasons = {"sleeps": "sleeps or waits", "waits": "sleeps or waits", "async": "await ctx.astep", "none": "be called"}
    with eager(app):
        for mode, reason in reasons.items():
            with pytest.raises(TaskFailed, match=rf"Step 'pay' .*{reason}"):
                wrong.enqueue(mode).get(0)
        with pytest.raises(TaskFailed, match="Step 'pay' sleeps or waits"):
            awrong.enqueue().get(0)


def test_a_task_that_would_expire_while_it_waits_says_so(app: Stem) -> None:
    @app.task(name="slow", max_retries=0)
    def slow(ctx: TaskContext, seconds: float) -> str:
        ctx.sleep(seconds)
        return "done"

    with eager(app) as world:
        short, long = slow.options(expires=60).enqueue(30), slow.options(expires=60).enqueue(90)
        with pytest.raises(TaskFailed, match="before this wait is over"):
            long.get(0)
        world.clock.advance(30)
        assert short.get(0) == "done"


def test_a_task_that_runs_at_most_once_cannot_sleep(app: Stem) -> None:
    @app.task(name="once", at_most_once=True)
    def once(ctx: TaskContext) -> None:
        ctx.sleep(1)

    with eager(app):
        with pytest.raises(TaskFailed, match="runs at most once and cannot sleep"):
            once.enqueue().get(0)


def test_an_event_for_an_unknown_or_ended_task_or_one_too_large_is_refused(app: Stem) -> None:
    @app.task(name="quick")
    def quick() -> None: ...

    with eager(app):
        with pytest.raises(TaskNotFound):
            app.send_event("nobody", "x")
        ended = quick.enqueue()
        with pytest.raises(TaskEnded, match="has ended"):
            app.send_event(ended.id, "x")
        waiting = quick.options(delay=60).enqueue()
        with pytest.raises(InvalidArguments, match="the data of an event takes"):
            app.send_event(waiting.id, "x", "y" * app.settings.max_args_bytes)
        with pytest.raises(InvalidArguments, match="An event is named"):
            app.send_event(waiting.id, "", None)


def _raw(data: bytes) -> Any:
    import msgspec

    return msgspec.Raw(data)
