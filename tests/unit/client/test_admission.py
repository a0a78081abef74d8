"""A delivery is admitted, or rejected with a reason; an admitted call comes to an outcome, whatever it does."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from stem import Delays, Exponential, Fixed, InvalidArguments, Stem, TaskContext
from stem.client.run.admit import Admitted, admit
from stem.client.run.invoke import Ended, invoke
from stem.core.decisions.settle import settle
from stem.core.delivery import Delivery, Lease
from stem.core.outcome import Raised, Rejected, Retry, Returned
from stem.core.record import TaskError
from stem.testing import StoreChannel, run_pending


class Final(Exception):
    retryable = False


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Fickle(Exception):
    @property
    def retryable(self) -> bool:
        raise RuntimeError


class Base(BaseException):
    pass


@dataclass
class Odd:
    x: int

    def __post_init__(self) -> None:
        raise KeyError("never")


@dataclass
class Reading:
    value: float


def nested(depth: int) -> list[Any]:
    value: list[Any] = [None]
    for _ in range(depth):
        value = [value]
    return value


def delivered(app: Stem) -> Delivery:
    return app.store.broker.claim(["default"], limit=1, lease_seconds=60)[0]


def outcome_of(app: Stem, function: Any, *args: Any, **options: Any) -> Ended:
    app.task(name="it", **options)(function).enqueue(*args)
    delivery = delivered(app)
    admitted = admit(app, delivery)
    assert isinstance(admitted, Admitted)
    channel = StoreChannel(app.store, delivery.lease)
    context = TaskContext(app, delivery, admitted.envelope, channel, "w")
    return invoke(admitted, context, catch_interrupts=False)


def test_a_good_delivery_is_admitted_with_typed_arguments(app: Stem) -> None:
    def it(pair: tuple[int, int]) -> None: ...

    app.task(name="it")(it).enqueue((1, 2))
    admitted = admit(app, delivered(app))
    assert isinstance(admitted, Admitted)
    assert admitted.arguments == {"pair": (1, 2)}


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("it", b"not json", "envelope-unreadable"),
        ("it", b"[]", "envelope-unreadable"),
        ("it", b"\xff\xfe", "envelope-unreadable"),
        ("it", b"[" * 100_000, "envelope-unreadable"),
        ("it", {"version": 99}, "envelope-unreadable"),
        ("other", {}, "unknown-task"),
        ("it", {"args": {"number": "x"}}, "invalid-arguments"),
        ("it", {"args": {}}, "invalid-arguments"),
        ("it", {"args": {"number": 1, "more": 2}}, "invalid-arguments"),
        ("it", {"args": 5}, "invalid-arguments"),
        ("it", {"args": msgspec.Raw(b'{"number":"\xff"}')}, "invalid-arguments"),
        ("it", {"args": msgspec.Raw(b'{"number":%s}' % (b"9" * 5000))}, "invalid-arguments"),
    ],
)
def test_a_delivery_that_cannot_run_is_rejected_with_a_reason(app: Stem, name: str, body: Any, reason: str) -> None:
    def it(number: int) -> None: ...

    app.task(name="it")(it)
    app.enqueue(name, args={"number": 1}, check=False)
    delivery = delivered(app)
    if isinstance(body, dict):
        body = msgspec.json.encode({**msgspec.json.decode(delivery.body), **body})
    rejected = admit(app, msgspec.structs.replace(delivery, body=body))
    assert isinstance(rejected, Rejected)
    assert rejected.reason == reason
    assert rejected.error.message


UNREADABLE = [
    b"[1]",
    b"5",
    b'{"x":1e999}',
    b'{"x":%s}' % (b"9" * 5000),
    b'{"x":"\xff"}',
    b'{"x":%s1%s}' % (b"[" * 5000, b"]" * 5000),
]


@pytest.mark.parametrize("args", UNREADABLE, ids=lambda args: repr(args[:12]))
@pytest.mark.parametrize("keys", ["", "k1:hmac-sha256:eHh4eHh4eHh4eHh4eHh4eHh4eHh4"], ids=["bare", "signed"])
@pytest.mark.parametrize("name", ["it", "rest"])
def test_arguments_that_cannot_be_read_are_rejected_signed_or_not(name: str, args: bytes, keys: str) -> None:
    with Stem("memory://poison", signing_keys=keys) as app:
        app.task(name="it")(lambda x=0: None)
        app.task(name="rest")(lambda **rest: None)
        app.enqueue(name, args={"x": 1})
        delivery = delivered(app)
        body = delivery.body.replace(b'{"x":1}', args)
        assert body != delivery.body
        rejected = admit(app, msgspec.structs.replace(delivery, body=body))
        assert isinstance(rejected, Rejected)
        assert rejected.reason in ("envelope-unreadable", "invalid-arguments")


def test_a_class_that_refuses_its_values_in_a_way_of_its_own_is_answered(app: Stem) -> None:
    def it(odd: Odd) -> None: ...

    with pytest.raises(InvalidArguments, match="do not fit it: 'never'"):
        app.task(name="it")(it).enqueue({"x": 1})  # type: ignore[arg-type]


def test_a_rejected_delivery_is_parked_with_its_reason(app: Stem) -> None:
    handle = app.enqueue("nobody", check=False)
    run_pending(app)
    letter = app.store.deadletters.get(handle.id)
    assert letter is not None
    assert (letter.reason, handle.status().state) == ("unknown-task", "failed")


def test_a_value_is_returned_as_json(app: Stem) -> None:
    assert outcome_of(app, lambda a=None: {"got": a}, 5) == Returned(msgspec.Raw(b'{"got":5}'))


def test_an_async_function_is_run_to_its_end_also_under_a_running_loop(app: Stem) -> None:
    async def it() -> int:
        await asyncio.sleep(0)
        return 7

    async def under_a_loop() -> Ended:
        return outcome_of(app, it)

    assert outcome_of(app, it) == Returned(msgspec.Raw(b"7"))
    assert asyncio.run(under_a_loop()) == Returned(msgspec.Raw(b"7"))


@pytest.mark.parametrize(
    ("error", "kind", "message", "retryable"),
    [
        (ValueError("no"), "ValueError", "no", True),
        (Final("never"), f"{__name__}.Final", "never", False),
        (Mute(), f"{__name__}.Mute", "(its text could not be made: RuntimeError)", True),
        (SystemExit(3), "SystemExit", "3", True),
        (ValueError("nul \x00 and half \ud800"), "ValueError", "nul \\x00 and half \\ud800", True),
        (asyncio.CancelledError(), "RuntimeError", "The task cancelled itself.", True),
    ],
    ids=repr,
)
def test_an_exception_is_recorded_in_full(app: Stem, error: Any, kind: str, message: str, retryable: bool) -> None:
    async def it() -> None:
        raise error

    outcome = outcome_of(app, it)
    assert isinstance(outcome, Raised)
    assert (outcome.error.type, outcome.error.message, outcome.error.retryable) == (kind, message, retryable)
    assert "in it" in outcome.error.stack or kind.endswith("Mute")
    assert "invoke.py" not in outcome.error.stack or kind == "RuntimeError"


@pytest.mark.parametrize(
    "error",
    [Base("x"), asyncio.CancelledError(), GeneratorExit(), SystemExit(1), BaseExceptionGroup("g", [Base()]), Fickle()],
    ids=repr,
)
def test_any_exception_of_a_plain_function_is_an_outcome(app: Stem, error: BaseException) -> None:
    def it() -> None:
        raise error

    outcome = outcome_of(app, it)
    assert isinstance(outcome, Raised)
    assert outcome.error.retryable
    assert outcome.error.type.endswith(type(error).__name__)


def test_a_keyboard_interrupt_is_nobodys_outcome(app: Stem) -> None:
    def it() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outcome_of(app, it)


@pytest.mark.parametrize(
    "value",
    [object(), float("nan"), "\x00", "x" * (1 << 20), {1j: 2}, Reading(float("inf")), nested(2000)],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_a_json_form_is_a_failure_that_no_retry_mends(app: Stem, value: Any) -> None:
    outcome = outcome_of(app, lambda: value)
    assert isinstance(outcome, Raised)
    assert (outcome.error.type, outcome.error.retryable) == ("UnserialisableResult", False)
    assert " the result " in outcome.error.message


def test_the_limit_of_a_result_is_told_as_it_is(app: Stem) -> None:
    outcome = outcome_of(app, lambda: "x" * (1 << 20))
    assert isinstance(outcome, Raised)
    assert outcome.error.message.startswith("The JSON of the result takes 1,048,578 bytes and the limit is 1,048,576;")


def test_a_deep_value_with_an_empty_place_comes_to_an_outcome(app: Stem) -> None:
    for depth in range(100, 1000, 50):
        assert isinstance(outcome_of(app, nested, depth), Returned | Raised)


def test_the_worker_fills_the_context_in(app: Stem) -> None:
    def it(ctx: TaskContext, a: int) -> bool:
        return isinstance(ctx, TaskContext)

    assert outcome_of(app, it, 5) == Returned(msgspec.Raw(b"true"))


def test_the_calls_policy_counts_before_the_tasks_and_that_before_the_apps(app: Stem) -> None:
    def policy(**options: Any) -> Any:
        app.tasks["it"].options(**options).enqueue()
        admitted = admit(app, delivered(app))
        assert isinstance(admitted, Admitted)
        return admitted

    app.task(name="it", max_retries=7, retry=5, soft_limit=10, hard_limit=20)(lambda: None)
    assert policy().policy.retry == Fixed(5.0)
    assert (policy().policy.max_retries, policy().soft_limit, policy().hard_limit) == (7, 10.0, 20.0)
    own = policy(max_retries=1, retry=[1, 2], soft_limit=1, hard_limit=2)
    assert (own.policy.max_retries, own.policy.retry) == (1, Delays((1.0, 2.0)))
    assert (own.soft_limit, own.hard_limit) == (1.0, 2.0)
    app.task(name="other")(lambda: None)
    assert app.tasks["other"].definition.retry == Exponential()


def test_a_lease_is_no_part_of_admission(app: Stem) -> None:
    app.task(name="it")(lambda: None).enqueue()
    delivery = delivered(app)
    assert isinstance(admit(app, msgspec.structs.replace(delivery, lease=Lease("elsewhere", 1))), Admitted)


@pytest.mark.parametrize(
    ("function", "delay"),
    [
        (lambda attempt, error: attempt + len(error.message), 7.0),
        (lambda attempt, error: timedelta(minutes=1), 60.0),
        (lambda attempt, error: float("nan"), 8.0),
        (lambda attempt, error: -1, 8.0),
        (lambda attempt, error: 1 / 0, 8.0),
        (lambda: 1, 8.0),
    ],
)
def test_a_retry_function_decides_and_one_that_fails_stops_nothing(app: Stem, function: Any, delay: float) -> None:
    app.task(name="it", retry=function)(lambda: None).enqueue()
    admitted = admit(app, delivered(app))
    assert isinstance(admitted, Admitted)
    failed = Raised(TaskError("ValueError", "12345", retryable=True))
    assert settle(failed, admitted.policy, attempt=2, deaths=0, random_fraction=0.5) == Retry(delay, failed.error)
