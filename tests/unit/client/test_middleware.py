"""Hooks see what is sent and run, in order; what one of them does wrong is reported and stops nothing."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import msgspec
import pytest

from stem import Middleware, State, Stem, TaskContext, TaskRevoked, UsageError, current_task
from stem.client.middleware import Hooks
from stem.core.envelope import Envelope
from stem.core.errors import SoftTimeLimitExceeded
from stem.core.outcome import Cancelled, Done, Retry, Settlement
from stem.testing import eager

Told = list[Any]


class Telling(Middleware):
    """Says which of its hooks was called."""

    def __init__(self, told: Told, name: str) -> None:
        self._told = told
        self._name = name

    def enqueue(self, envelope: Envelope) -> Envelope:
        self._told.append(f"{self._name} enqueue")
        return msgspec.structs.replace(envelope, headers={**envelope.headers, self._name: "was here"})

    def consume(self, context: TaskContext) -> None:
        self._told.append(f"{self._name} consume")

    @contextmanager
    def execute(self, context: TaskContext) -> Iterator[None]:
        self._told.append(f"{self._name} enter")
        try:
            yield
        finally:
            self._told.append(f"{self._name} leave")

    def error(self, context: TaskContext, error: BaseException) -> None:
        self._told.append(f"{self._name} error {error}")

    def settle(self, context: TaskContext, settlement: Settlement) -> None:
        self._told.append(f"{self._name} settle {type(settlement).__name__}")


class Broken(Middleware):
    """Raises in the one hook that it is told to."""

    def __init__(self, where: str, error: BaseException) -> None:
        self._where = where
        self._error = error

    def enqueue(self, envelope: Envelope) -> Envelope:
        envelope.headers["x"] = "changed in place, and then it failed"
        self._raise("enqueue")
        return envelope

    def consume(self, context: TaskContext) -> None:
        self._raise("consume")

    @contextmanager
    def execute(self, context: TaskContext) -> Iterator[None]:
        self._raise("enter")
        try:
            yield
        finally:
            self._raise("leave")

    def error(self, context: TaskContext, error: BaseException) -> None:
        self._raise("error")

    def settle(self, context: TaskContext, settlement: Settlement) -> None:
        self._raise("settle")

    def _raise(self, where: str) -> None:
        if where == self._where:
            raise self._error


def reports(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "stem.middleware"]


def test_hooks_go_in_on_the_way_to_the_handler_and_in_reverse_on_the_way_back(app: Stem) -> None:
    told: Told = []
    app.use(Telling(told, "a"))
    app.use(Telling(told, "b"))

    @app.task(max_retries=0)
    def it(fails: bool) -> None:
        told.append("handler")
        if fails:
            raise ValueError("no")

    with eager(app):
        it.enqueue(False)
        assert told == [
            *("a enqueue", "b enqueue", "a consume", "b consume", "a enter", "b enter", "handler"),
            *("b leave", "a leave", "b settle Done", "a settle Done"),
        ]
        told.clear()
        it.enqueue(True)
    assert told == [
        *("a enqueue", "b enqueue", "a consume", "b consume", "a enter", "b enter", "handler", "b leave", "a leave"),
        *("b error no", "a error no", "b settle Dead", "a settle Dead"),
    ]


def test_an_app_may_be_given_its_middleware_at_once() -> None:
    told: Told = []
    with Stem("memory://middleware-given", middleware=[Telling(told, "a"), Telling(told, "b")]) as app:
        work = app.task(name="work")(lambda: current_task().headers)
        with eager(app):
            assert work.enqueue().get() == {"a": "was here", "b": "was here"}
    assert told[:2] == ["a enqueue", "b enqueue"]


@pytest.mark.parametrize("wrong", [Telling, "otel", lambda: None])
def test_an_object_that_is_no_middleware_is_refused_with_a_sentence(app: Stem, wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"is no middleware; pass an object whose class derives from stem\.Middleware"):
        app.use(wrong)
    with pytest.raises(UsageError):
        Stem("memory://middleware-wrong", middleware=[wrong])


def test_the_async_handler_runs_within_the_manager_and_sees_what_it_set(app: Stem) -> None:
    from contextvars import ContextVar

    trace: ContextVar[str] = ContextVar("trace", default="none")

    class Tracing(Middleware):
        @contextmanager
        def execute(self, context: TaskContext) -> Iterator[None]:
            token = trace.set(context.id)
            yield
            trace.reset(token)

    app.use(Tracing())

    @app.task
    async def it() -> str:
        await asyncio.sleep(0)
        return trace.get()

    with eager(app):
        assert it.options(id="one").enqueue().get() == "one"
    assert trace.get() == "none"


@pytest.mark.parametrize("where", ["enqueue", "consume", "enter", "leave", "error", "settle"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_hook_that_raises_is_reported_and_stops_nothing(
    app: Stem, caplog: pytest.LogCaptureFixture, where: str, fails: bool
) -> None:
    told: Told = []
    app.use(Telling(told, "a"))
    app.use(Broken(where, RuntimeError("broken hook")))
    app.use(Telling(told, "b"))

    @app.task(name="it", retry=5)
    def it(fails: bool) -> dict[str, str]:
        if fails:
            raise ValueError("no")
        return current_task().headers

    with eager(app):
        record = it.options(id="one").enqueue(fails).status()
    assert record.state is (State.RETRIED if fails else State.SUCCEEDED)
    assert record.error is None or record.error.type == "ValueError"
    outside = ["a enqueue", "b enqueue", "a consume", "b consume", "a enter", "b enter", "b leave", "a leave"]
    errors = ["b error no", "a error no"] if fails else []
    ending = "Retry" if fails else "Done"
    assert told == [*outside, *errors, f"b settle {ending}", f"a settle {ending}"]
    if where == "error" and not fails:
        assert reports(caplog) == []
        return
    (report,) = reports(caplog)
    hook = {"enter": "execute", "leave": "execute"}.get(where, where)
    assert report.getMessage() == f"middleware.failed hook={hook} class=Broken id=one"
    assert report.exc_info is not None and str(report.exc_info[1]) == "broken hook"


def test_a_failed_enqueue_hook_leaves_the_envelope_as_it_was_before(app: Stem) -> None:
    app.use(Broken("enqueue", ValueError("no")))
    sender = app.task(name="it")(lambda: current_task().headers).options(headers={"x": "mine"})
    with eager(app):
        assert sender.enqueue().get() == {"x": "mine"}
        assert sender.enqueue().get() == {"x": "mine"}


@pytest.mark.parametrize(
    ("headers", "meta", "sentence"),
    [
        ({"stem-signature": "forged"}, {}, "reserved"),
        ({"a b": "c"}, {}, "Header name"),
        ({"a": 5}, {}, "must be a string"),
        ({"a": "x" * 16_385}, {}, "The headers take 16,386 bytes"),
        ({}, {"a": object()}, "Something in meta is not JSON"),
        ({}, {"a": "x" * 65_536}, "The JSON of meta takes"),
        ({}, [], "meta is not an object"),
    ],
)
def test_headers_and_meta_of_an_enqueue_hook_are_checked_like_the_callers(
    app: Stem, caplog: pytest.LogCaptureFixture, headers: Any, meta: Any, sentence: str
) -> None:
    class Adding(Middleware):
        def enqueue(self, envelope: Envelope) -> Envelope:
            return msgspec.structs.replace(envelope, headers=headers, meta=meta)

    app.use(Adding())
    handle = app.task(name="it")(lambda: None).options(headers={"x": "mine"}, meta={"n": 1}).enqueue()
    (delivery,) = app.store.broker.claim(["default"], limit=1, lease_seconds=60)
    assert (delivery.envelope.headers, delivery.envelope.meta) == ({"x": "mine"}, {"n": 1})
    (report,) = reports(caplog)
    assert report.exc_info is not None and sentence in str(report.exc_info[1])
    assert handle.status().meta == {"n": 1}


@pytest.mark.parametrize("change", [{"priority": 9}, {"id": "another"}, {"args": msgspec.Raw(b'{"a":1}')}])
def test_the_rest_of_the_envelope_is_the_callers(
    app: Stem, caplog: pytest.LogCaptureFixture, change: dict[str, Any]
) -> None:
    class Changing(Middleware):
        def enqueue(self, envelope: Envelope) -> Envelope:
            return msgspec.structs.replace(envelope, headers={"new": "one"}, **change)

    app.use(Changing())
    app.task(name="it")(lambda a=0: None).options(id="one").enqueue()
    (delivery,) = app.store.broker.claim(["default"], limit=1, lease_seconds=60)
    assert (delivery.lease.id, delivery.envelope.priority, delivery.envelope.headers) == ("one", 5, {})
    assert delivery.envelope.args == msgspec.Raw(b"{}")
    (report,) = reports(caplog)
    assert report.exc_info is not None and "more of the envelope than its headers and meta" in str(report.exc_info[1])


def test_a_hook_that_forgets_to_return_changes_nothing(app: Stem, caplog: pytest.LogCaptureFixture) -> None:
    class Forgetful(Middleware):
        def enqueue(self, envelope: Envelope) -> Envelope:
            return None  # type: ignore[return-value]

    app.use(Forgetful())
    with eager(app):
        assert app.task(name="it")(lambda: 1).enqueue().get() == 1
    (report,) = reports(caplog)
    assert report.exc_info is not None and "returned an object of type NoneType; return the envelope" in str(
        report.exc_info[1]
    )


def test_a_change_in_place_by_a_hook_affects_that_call_only(app: Stem) -> None:
    seen: Told = []

    class InPlace(Middleware):
        def enqueue(self, envelope: Envelope) -> Envelope:
            seen.append((dict(envelope.headers), list(envelope.meta["list"])))
            envelope.headers["n"] = str(len(seen))
            envelope.meta["list"].append(len(seen))
            return envelope

    app.use(InPlace())
    sender = app.task(name="it")(lambda: [current_task().headers, current_task().meta]).options(meta={"list": []})
    with eager(app):
        assert sender.enqueue().get() == [{"n": "1"}, {"list": [1]}]
        assert sender.enqueue().get() == [{"n": "2"}, {"list": [2]}]
    assert seen == [({}, []), ({}, [])]


def test_headers_added_by_a_hook_are_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEM_SIGNING_KEYS", raising=False)
    keys = "k:hmac-sha256:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
    with Stem("memory://middleware-signed", signing_keys=keys, middleware=[Telling([], "a")]) as app:
        work = app.task(name="work")(lambda: current_task().headers["a"])
        with eager(app):
            assert work.enqueue().get() == "was here"


def test_every_call_of_a_stream_passes_the_hooks(app: Stem) -> None:
    told: Told = []
    app.use(Telling(told, "a"))
    app.task(name="it")(lambda n: None).enqueue_many({"n": n} for n in range(5))
    assert told == ["a enqueue"] * 5


class Swallowing(Middleware):
    def execute(self, context: TaskContext) -> AbstractContextManager[Any]:
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> bool:
        return True


def test_a_manager_cannot_swallow_what_the_handler_raised(app: Stem) -> None:
    app.use(Swallowing())

    def fails() -> None:
        raise ValueError("no")

    with eager(app):
        record = app.task(name="it", max_retries=0)(fails).enqueue().wait()
    assert record.state is State.FAILED
    assert record.error is not None and record.error.type == "ValueError"


def test_a_manager_that_raises_another_error_changes_nothing(app: Stem, caplog: pytest.LogCaptureFixture) -> None:
    class Translating(Middleware):
        @contextmanager
        def execute(self, context: TaskContext) -> Iterator[None]:
            try:
                yield
            except ValueError as error:
                raise KeyError("translated") from error

    def fails() -> None:
        raise ValueError("no")

    app.use(Translating())
    with eager(app):
        record = app.task(name="it", max_retries=0)(fails).enqueue().wait()
    assert record.error is not None and record.error.type == "ValueError"
    assert len(reports(caplog)) == 1


def test_a_manager_that_is_none_is_reported(app: Stem, caplog: pytest.LogCaptureFixture) -> None:
    class NoManager(Middleware):
        def execute(self, context: TaskContext) -> AbstractContextManager[Any]:
            return None  # type: ignore[return-value]

    app.use(NoManager())
    with eager(app):
        assert app.task(name="it")(lambda: 1).enqueue().get() == 1
    assert len(reports(caplog)) == 1


@pytest.mark.parametrize("where", ["consume", "enter", "leave"])
def test_an_interrupt_that_strikes_a_hook_is_the_attempts(app: Stem, where: str) -> None:
    settled: list[type] = []

    class Noting(Middleware):
        def settle(self, context: TaskContext, settlement: Settlement) -> None:
            settled.append(type(settlement))

    app.use(Noting())
    app.use(Broken(where, SoftTimeLimitExceeded("too long")))
    app.use(Broken(where, TaskRevoked("by ada")))
    with eager(app):
        app.task(name="it", retry=5)(lambda: 1).enqueue()
    # The first of the two on the way in, and on the way out the one that was raised last.
    assert settled == [Retry]
    settled.clear()
    with Stem("memory://middleware-revoked", middleware=[Noting(), Broken(where, TaskRevoked("by ada"))]) as other:
        with eager(other):
            assert other.task(name="it")(lambda: 1).enqueue().status().state is State.CANCELLED
    assert settled == [Cancelled]


@pytest.mark.parametrize("where", ["error", "settle"])
@pytest.mark.parametrize("error", [SystemExit(1), TaskRevoked("late"), SoftTimeLimitExceeded("late")])
def test_an_ended_task_is_settled_whatever_its_last_hooks_raise(app: Stem, where: str, error: BaseException) -> None:
    def fails() -> None:
        raise ValueError("no")

    app.use(Broken(where, error))
    with eager(app):
        assert app.task(name="it", max_retries=0)(fails).enqueue().status().state is State.FAILED


def test_revokes_and_wishes_for_a_retry_are_settled_and_no_errors(app: Stem) -> None:
    told: Told = []
    app.use(Telling(told, "a"))

    def it(ctx: TaskContext, revoked: bool) -> None:
        if revoked:
            raise TaskRevoked
        ctx.retry(5)

    with eager(app):
        work = app.task(name="it")(it)
        work.enqueue(False)
        work.enqueue(True)
    assert [line for line in told if "settle" in line or "error" in line] == ["a settle Retry", "a settle Cancelled"]


def test_the_hooks_of_an_attempt_can_ask_for_the_current_task(app: Stem) -> None:
    found: Told = []

    class Asking(Middleware):
        def consume(self, context: TaskContext) -> None:
            found.append(current_task() is context)

        def execute(self, context: TaskContext) -> AbstractContextManager[Any]:
            found.append(current_task() is context)
            return nullcontext()

        def settle(self, context: TaskContext, settlement: Settlement) -> None:
            found.append((current_task() is context, settlement))

    app.use(Asking())
    with eager(app):
        app.task(name="it")(lambda: 1).enqueue()
    assert found == [True, True, (True, Done(msgspec.Raw(b"1")))]


def test_a_rejected_delivery_calls_no_hook_of_an_attempt(app: Stem) -> None:
    told: Told = []
    with eager(app):
        app.use(Telling(told, "a"))
        record = app.enqueue("nobody", check=False).wait()
    assert record.state is State.FAILED
    assert told == ["a enqueue"]


def test_only_overridden_hooks_are_collected() -> None:
    class Only(Middleware):
        def consume(self, context: TaskContext) -> None: ...

    single = Middleware()
    single.settle = lambda context, settlement: None  # type: ignore[method-assign]
    hooks = Hooks([Middleware(), Only(), single])
    assert [len(getattr(hooks, f"_{name}")) for name in ("enqueue", "consume", "execute", "error", "settle")] == [
        *(0, 1, 0, 0, 1),
    ]
