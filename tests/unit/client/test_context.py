"""What a running task sees of itself, and what it can say to whoever runs it."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from contextvars import copy_context
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stem import InvalidArguments, InvalidTask, State, Stem, TaskContext, TaskRevoked, UsageError, current_task
from stem.client.run.attempt import attempt
from stem.client.task.signature import FunctionSignature
from stem.core.delivery import Lease
from stem.core.envelope import Push, Receipt
from stem.core.lifecycle import EventKind
from stem.core.outcome import Done
from stem.core.revoke import RevokeRequest
from stem.testing import WORKER, FakeClock, StoreChannel, eager, run_pending


def seen(app: Stem, function: Any, **options: Any) -> Any:
    """What the function returned when it ran as a task."""
    task = app.task(name="it")(function)
    with eager(app):
        return task.options(**options).enqueue().get()


def test_a_task_knows_who_and_where_it_is(app: Stem) -> None:
    def it(ctx: TaskContext) -> list[Any]:
        return [
            ctx.id,
            ctx.name,
            ctx.queue,
            ctx.attempt,
            ctx.max_retries,
            ctx.worker,
            ctx.headers,
            ctx.meta,
            ctx.tenant,
        ]

    assert seen(app, it, id="one", queue="mail", max_retries=7, headers={"tenant": "acme"}, meta={"n": 1}) == [
        *("one", "it", "mail", 0, 7, WORKER, {"tenant": "acme"}, {"n": 1}, "acme"),
    ]


def test_the_attempt_grows_with_each_retry(app: Stem) -> None:
    attempts: list[int] = []

    @app.task(retry=1, max_retries=2)
    def it(ctx: TaskContext) -> None:
        attempts.append(ctx.attempt)
        raise ValueError

    with eager(app) as world:
        it.enqueue()
        world.clock.advance(10)
    assert attempts == [0, 1, 2]


def test_the_context_is_found_without_a_parameter(app: Stem) -> None:
    def deep() -> str:
        return current_task().id

    assert seen(app, lambda: deep(), id="one") == "one"


def test_an_async_task_and_its_threads_find_it(app: Stem) -> None:
    async def it() -> list[str]:
        return [current_task().id, await asyncio.to_thread(lambda: current_task().id)]

    assert seen(app, it, id="one") == ["one", "one"]


def test_outside_of_a_task_there_is_none(app: Stem) -> None:
    with pytest.raises(UsageError, match=r"No task is running here; call this from a task's function"):
        current_task()
    assert seen(app, lambda: current_task().id)
    with pytest.raises(UsageError):
        current_task()


def test_a_context_is_that_of_the_task_it_runs_in_when_one_task_runs_within_another(app: Stem) -> None:
    inner = app.task(name="inner")(lambda: current_task().name)
    outer = app.task(name="outer")(lambda: [current_task().name, inner.enqueue().get(), current_task().name])
    with eager(app):
        assert outer.enqueue().get() == ["outer", "inner", "outer"]


def test_progress_and_heartbeat_are_kept_in_the_record(app: Stem) -> None:
    records = []

    @app.task
    def it(ctx: TaskContext) -> None:
        ctx.heartbeat()
        ctx.progress(0.5, "half", rows=7)
        records.append(app.handle(ctx.id).status())
        ctx.progress(message="nearly")

    with eager(app):
        handle = it.enqueue()
        kinds = [event.kind for event in app.store.events.read(None, limit=9)]
        assert handle.status().meta["progress"] == {"fraction": None, "message": "nearly"}
    assert records[0].meta["progress"] == {"fraction": 0.5, "message": "half", "rows": 7}
    assert records[0].heartbeat_at is not None
    assert kinds == [
        *(EventKind.ENQUEUED, EventKind.STARTED, EventKind.HEARTBEAT, EventKind.PROGRESS, EventKind.PROGRESS),
        EventKind.SUCCEEDED,
    ]


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"fraction": 1.01}, r"The progress is 1\.01; give a fraction from 0 to 1, or None\."),
        ({"fraction": -0.1}, "fraction from 0 to 1"),
        ({"fraction": float("nan")}, "fraction from 0 to 1"),
        ({"fraction": "0.5"}, "fraction from 0 to 1"),
        ({"fraction": True}, "fraction from 0 to 1"),
        ({"message": 5}, "message of a progress is of type int; give a string"),
        ({"what": object()}, "Something in the progress is not JSON"),
        ({"what": float("inf")}, "NaN or infinite"),
        ({"what": "x" * 2048}, r"The JSON of the progress takes 2,\d\d\d bytes and the limit is 2,048; keep the data"),
    ],
)
def test_a_progress_that_cannot_be_kept_is_refused_with_a_sentence(app: Stem, said: Any, sentence: str) -> None:
    def it(ctx: TaskContext) -> str:
        with pytest.raises(InvalidTask, match=sentence):
            ctx.progress(**said)
        return "refused"

    assert seen(app, it) == "refused"


def test_a_lease_can_be_extended_and_never_to_nothing(app: Stem) -> None:
    @app.task(name="it", max_retries=0)
    def it(ctx: TaskContext) -> str:
        ctx.extend_lease(timedelta(hours=2))
        for wrong in (0, -1, "soon", float("nan")):
            with pytest.raises(InvalidTask, match="The extension of a lease is"):
                ctx.extend_lease(wrong)
        FakeClock.advance(world.clock, 3600)  # past the five minutes of the claim
        return str(app.store.broker.reclaim().returned)

    with eager(app) as world:
        assert it.enqueue().get() == "[]"


def test_a_task_whose_lease_is_gone_is_told_so(app: Stem) -> None:
    told: list[str] = []

    @app.task(name="it")
    def it(ctx: TaskContext) -> None:
        lost = fenced_off(ctx, fence=ctx.delivery.lease.fence + 1)
        for speak in (lost.heartbeat, lost.progress, lambda: lost.extend_lease(5)):
            try:
                speak()
            except Exception:  # noqa: BLE001 - what this test is about: it must not catch it
                told.append("swallowed")
            except TaskRevoked as error:
                told.append(str(error))

    with eager(app):
        it.enqueue().get()
    assert told == ["the lease was lost"] * 3


def fenced_off(ctx: TaskContext, *, fence: int) -> TaskContext:
    channel = StoreChannel(ctx._app.store, Lease(ctx.id, fence))
    return TaskContext(ctx._app, ctx.delivery, ctx._envelope, channel, ctx.worker)


def test_retry_ends_the_attempt_after_its_own_delay(app: Stem) -> None:
    at: list[float] = []

    @app.task(name="it", retry=1000, max_retries=2)
    def it(ctx: TaskContext) -> str:
        at.append(world.clock())
        try:
            if ctx.attempt == 0:
                ctx.retry(timedelta(minutes=1), "not yet")
            if ctx.attempt == 1:
                ctx.retry()
        except Exception:  # noqa: BLE001 - a handler that swallows what it can
            return "swallowed"
        return "done"

    with eager(app) as world:
        handle = it.enqueue()
        record = handle.status()
        assert record.state is State.RETRIED
        assert record.error is not None
        assert (record.error.type, record.error.message, record.error.retryable) == ("RetryRequested", "not yet", True)
        world.clock.advance(2000)
        assert handle.get() == "done"
    assert [moment - at[0] for moment in at] == [0, 60, 1060]


def test_retry_with_none_left_is_a_dead_letter_like_any_failure(app: Stem) -> None:
    @app.task(name="it", max_retries=0, no_retry_on=Exception)
    def it(ctx: TaskContext) -> None:
        ctx.retry(5, "again")

    with eager(app):
        handle = it.enqueue()
        letter = app.store.deadletters.get(handle.id)
        assert letter is not None and letter.reason == "retries-exhausted"
        assert handle.status().state is State.FAILED


def test_retry_counts_whatever_the_classes_say(app: Stem) -> None:
    @app.task(name="it", retry_on=OSError, no_retry_on=BaseException)
    def it(ctx: TaskContext) -> int:
        return 1 if ctx.attempt else ctx.retry(1)

    with eager(app) as world:
        handle = it.enqueue()
        world.clock.advance(1)
        assert handle.get() == 1


def test_a_delay_that_is_none_is_refused(app: Stem) -> None:
    def it(ctx: TaskContext) -> str:
        with pytest.raises(InvalidTask, match="A retry delay is -1 s"):
            ctx.retry(-1)
        return "refused"

    assert seen(app, it) == "refused"


def test_enqueue_takes_tasks_senders_and_names(app: Stem) -> None:
    @app.task(name="add")
    def add(a: int, b: int = 2) -> int:
        return a + b

    @app.task(name="it")
    def it(ctx: TaskContext) -> list[str]:
        return [
            ctx.enqueue(add, 1).id,
            ctx.enqueue(add.options(id="own", priority=9), 1, b=3).id,
            ctx.enqueue("add", args={"a": 5}, id="named").id,
            ctx.enqueue("add", {"a": 5}, id="named-too").id,
            ctx.enqueue("elsewhere", check=False, queue="other").id,
        ]

    it.enqueue()
    run_pending(app, queues=["default"], limit=1)
    ids = [peeked.id for peeked in app.store.broker.peek("default", limit=9)]
    assert {"own", "named", "named-too"} < set(ids)
    assert len(ids) == 4
    assert app.store.broker.depth()["other"].ready == 1
    run_pending(app, queues=["default"])
    assert [app.handle(name).get() for name in ("own", "named", "named-too")] == [4, 7, 7]


def test_enqueue_refuses_what_the_app_would_refuse(app: Stem) -> None:
    add = app.task(name="add")(lambda a: a)

    def it(ctx: TaskContext) -> str:
        with pytest.raises(InvalidArguments, match="add is missing 'a'"):
            ctx.enqueue(add)
        with pytest.raises(InvalidArguments, match="add has no argument 'b'"):
            ctx.enqueue("add", args={"a": 1, "b": 2})
        with pytest.raises(UsageError, match=r"No task named 'ad' .* did you mean add\?"):
            ctx.enqueue("ad")
        with pytest.raises(InvalidTask, match="There is no option 'colour'"):
            ctx.enqueue("add", args={"a": 1}, colour="red")  # type: ignore[call-overload]
        return "refused"

    assert seen(app, it) == "refused"


def test_enqueue_goes_through_the_channel_but_not_for_another_apps_task(app: Stem) -> None:
    with Stem("memory://context-other") as other:
        foreign, own = other.task(name="foreign")(lambda: 1), app.task(name="own")(lambda: 1)

        @app.task(name="it")
        def it(ctx: TaskContext) -> None:
            ctx.enqueue(foreign)
            ctx.enqueue(own)

        it.enqueue()
        run_pending(app, limit=1)
        assert other.store.broker.depth()["default"].ready == 1
        assert [peeked.name for peeked in app.store.broker.peek("default", limit=9)] == ["own"]


def test_enqueue_speaks_to_the_channel_and_not_to_the_apps_store(app: Stem) -> None:
    class Recording(StoreChannel):
        def push(self, pushes: Sequence[Push]) -> list[Receipt]:
            pushed.extend(push.envelope.id for push in pushes)
            return [Receipt("held-by-another", created=False) for _ in pushes]

    pushed: list[str] = []
    work = app.task(name="work", queue="later")(lambda: None)

    @app.task(name="it")
    def it(ctx: TaskContext) -> list[Any]:
        handle = ctx.enqueue(work.options(id="one"))
        return [handle.id, handle.created, ctx.enqueue("work", id="two").id]

    it.enqueue()
    (delivery,) = app.store.broker.claim(["default"], limit=1, lease_seconds=60)
    result = attempt(app, delivery, Recording(app.store, delivery.lease), worker="w")
    assert result.settlement == Done(msgspec.Raw(b'["held-by-another",false,"held-by-another"]'))
    assert pushed == ["one", "two"]
    assert app.store.broker.depth(["later"])["later"].ready == 0


def test_a_call_that_joins_a_transaction_goes_to_the_store_of_that_transaction(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'stem.db'}"
    with Stem(url) as app, closing(sqlite3.connect(tmp_path / "stem.db")) as database:
        work = app.task(name="work", queue="later")(lambda: None)

        @app.task(name="it")
        def it(ctx: TaskContext) -> None:
            ctx.enqueue(work.options(connection=database))
            database.rollback()

        it.enqueue()
        run_pending(app, queues=["default"])
        assert app.store.broker.depth(["later"])["later"].ready == 0


def test_calls_enqueued_by_a_task_carry_their_parent_and_root(app: Stem) -> None:
    lines: dict[str, tuple[str | None, str]] = {}

    @app.task(name="leaf")
    def leaf(ctx: TaskContext) -> None:
        lines[ctx.id] = (ctx.parent_id, ctx.root_id)

    @app.task(name="branch")
    def branch(ctx: TaskContext) -> None:
        lines[ctx.id] = (ctx.parent_id, ctx.root_id)
        leaf.options(id="leaf").enqueue()
        leaf.enqueue_many([leaf.options(id="bulk").item()])

    @app.task(name="root")
    async def root(ctx: TaskContext) -> None:
        lines[ctx.id] = (ctx.parent_id, ctx.root_id)
        ctx.enqueue(branch.options(id="branch"))
        await leaf.options(id="awaited").aenqueue()

    with eager(app):
        root.options(id="root").enqueue()
        assert app.handle("leaf").status().meta == {"parentId": "branch", "rootId": "root"}
    assert lines == {
        "root": (None, "root"),
        "branch": ("root", "root"),
        "leaf": ("branch", "root"),
        "bulk": ("branch", "root"),
        "awaited": ("root", "root"),
    }


def test_the_callers_own_word_on_lineage_wins_and_the_senders_plan_stays_clean(app: Stem) -> None:
    work = app.task(name="work")(lambda: None)
    noted = work.options(id="noted", meta={"rootId": "mine", "n": 1})

    @app.task(name="it")
    def it() -> None:
        noted.enqueue()
        work.options(id="plain").enqueue()

    with eager(app):
        it.options(id="it").enqueue()
        assert app.handle("noted").status().meta == {"parentId": "it", "rootId": "mine", "n": 1}
        work.options(id="outside").enqueue()
        assert app.handle("outside").status().meta == {}


def test_lineage_makes_no_call_look_new(app: Stem) -> None:
    work = app.task(name="work", unique="until_done", queue="later")(lambda a: None)
    it = app.task(name="it")(lambda: work.enqueue(1).id)
    first = work.enqueue(1)
    handles = [it.enqueue(), it.enqueue()]
    run_pending(app, queues=["default"])
    assert [handle.get() for handle in handles] == [first.id, first.id]


def test_lineage_is_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEM_SIGNING_KEYS", raising=False)
    with Stem("memory://context-signed", signing_keys="k:hmac-sha256:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0") as app:
        inner = app.task(name="inner")(lambda: current_task().parent_id)
        outer = app.task(name="outer")(lambda: inner.enqueue().get())
        with eager(app):
            assert outer.options(id="outer").enqueue().get() == "outer"


def test_the_logger_says_which_task_speaks(app: Stem, caplog: pytest.LogCaptureFixture) -> None:
    def it(ctx: TaskContext) -> None:
        assert ctx.logger is ctx.logger
        ctx.logger.info("rows.read", extra={"rows": 5})

    with caplog.at_level(logging.INFO, logger="stem.task"):
        seen(app, it, id="one", queue="mail")
    (record,) = [record for record in caplog.records if record.name == "stem.task.it"]
    told = {name: getattr(record, name) for name in ("task_id", "task_name", "queue", "attempt", "worker", "rows")}
    assert told == {
        "task_id": "one",
        "task_name": "it",
        "queue": "mail",
        "attempt": 0,
        "worker": WORKER,
        "rows": 5,
    }


def test_the_class_itself_counts_and_not_its_name(app: Stem) -> None:
    class Mine(TaskContext):
        pass

    other = type("TaskContext", (), {})

    def namesake(ctx: Any, a: int) -> None: ...

    namesake.__annotations__["ctx"] = other

    def derived(a: int, c: Mine) -> None: ...

    def optional(a: int, context: "TaskContext | None" = None) -> None: ...

    assert FunctionSignature("it", namesake).context is None
    assert FunctionSignature("it", derived).context == "c"
    assert FunctionSignature("it", optional).context == "context"


def test_a_function_takes_one_context_and_takes_it_by_name(app: Stem) -> None:
    def two(one: TaskContext, other: TaskContext) -> None: ...
    def positional(ctx: TaskContext, /, a: int) -> None: ...

    with pytest.raises(InvalidTask, match="takes one and other, and an attempt has one context; keep one of them"):
        app.task(two)
    with pytest.raises(InvalidTask, match=r"'ctx' of task .* is positional-only"):
        app.task(positional)


def test_calling_a_task_with_a_context_takes_the_callers(app: Stem) -> None:
    @app.task(name="inner")
    def inner(ctx: TaskContext, a: int, *, b: int = 0) -> list[Any]:
        return [ctx.name, a, b]

    @app.task(name="inner-async")
    async def inner_async(ctx: TaskContext, a: int) -> str:
        return f"{ctx.name}-{a}"

    @app.task(name="outer")
    async def outer(ctx: TaskContext) -> list[Any]:
        by_hand: Any = inner
        return [inner(1, b=2), by_hand(ctx, 3), by_hand(ctx=ctx, a=4), await inner_async(5)]

    with eager(app):
        assert outer.enqueue().get() == [["outer", 1, 2], ["outer", 3, 0], ["outer", 4, 0], "outer-5"]
    with pytest.raises(UsageError, match="No task is running here"):
        inner(1)


def test_threads_of_their_own_do_not_see_it_unless_they_are_given_it(app: Stem) -> None:
    def it() -> list[str]:
        found: list[str] = []

        def look() -> None:
            try:
                found.append(current_task().id)
            except UsageError:
                found.append("none")

        context = copy_context()
        for target in (look, lambda: context.run(look)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
        return found

    assert seen(app, it, id="one") == ["none", "one"]


def test_a_context_shows_what_it_is(app: Stem) -> None:
    assert seen(app, lambda: repr(current_task()), id="one") == "TaskContext('one', 'it', attempt=0)"


@pytest.mark.parametrize(("reason", "recorded"), [("no longer wanted", "no longer wanted"), ("", "revoked")])
def test_a_revoke_that_is_to_end_the_task_reaches_it_past_its_own_excepts(
    app: Stem, reason: str, recorded: str
) -> None:
    cleaned: list[str] = []

    @app.task(name="it")
    def it(ctx: TaskContext) -> None:
        app.store.revokes.put([RevokeRequest(task_id=ctx.id, reason="merely marked")])
        ctx.heartbeat()
        app.store.revokes.put([RevokeRequest(task_id=ctx.id, reason=reason, terminate=True)])
        for _ in range(9):
            try:
                ctx.progress(0.5)
            except Exception:  # noqa: BLE001 - a loop that logs and goes on
                cleaned.append("swallowed")
            finally:
                cleaned.append("cleaned up")

    with eager(app):
        record = it.enqueue().wait()
    assert record.state is State.CANCELLED
    assert record.error is not None and record.error.message == recorded
    assert cleaned == ["cleaned up"]
