"""Arguments are bound to the signature, checked against its annotations, and come back as what they were."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID, uuid4

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stem import InvalidArguments, Stem, TaskContext
from stem.client.task.signature import FunctionSignature
from stem.core.text.encode import encode_json

LIMIT = 1 << 20


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: int = 0


class Order(msgspec.Struct):
    id: UUID
    lines: list[Point]


@dataclass(frozen=True)
class Reading:
    value: Any


class Sample(msgspec.Struct):
    value: Any


class Opaque:
    pass


def pay(
    order: Order, at: datetime, amount: Decimal, colour: Colour = Colour.RED, kind: Literal["a", "b"] = "a"
) -> None: ...
def loose(a, b=5): ...  # type: ignore[no-untyped-def]
def more(a: int, **rest: int) -> None: ...
def opaque(thing: Opaque, many: list[Opaque], plain: int | None = None) -> None: ...
def with_context(ctx: TaskContext, a: int, *, b: int = 0) -> None: ...
def unresolved(ctx: "missing.TaskContext", a: "Missing", b: "int") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def returns_order() -> Order:
    raise AssertionError


def round_trip(function: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    signature = FunctionSignature("it", function)
    return signature.decode(signature.encode(signature.bind(args, kwargs), limit_bytes=LIMIT))


def test_typed_arguments_come_back_as_what_they_were() -> None:
    sent = {
        "order": Order(uuid4(), [Point(1, 2)]),
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "amount": Decimal("12.30"),
        "colour": Colour.RED,
        "kind": "b",
    }
    assert round_trip(pay, **sent) == sent


def test_positions_become_names_and_defaults_are_not_stored() -> None:
    signature = FunctionSignature("it", loose)
    assert bytes(signature.encode(signature.bind((1,), {}), limit_bytes=LIMIT)) == b'{"a":1}'
    assert round_trip(loose, 1, 2) == {"a": 1, "b": 2}


def test_extra_keyword_arguments_are_checked() -> None:
    assert round_trip(more, 1, b=2, c=3) == {"a": 1, "b": 2, "c": 3}
    with pytest.raises(InvalidArguments, match="Expected `int`, got `str`"):
        round_trip(more, 1, b="2")


def test_an_annotation_that_json_has_no_form_for_counts_as_any() -> None:
    assert round_trip(opaque, {"a": 1}, [1], plain=3) == {"thing": {"a": 1}, "many": [1], "plain": 3}
    with pytest.raises(InvalidArguments, match=r"int \| null"):
        round_trip(opaque, 1, [1], plain="3")
    with pytest.raises(InvalidArguments, match="not JSON"):
        round_trip(opaque, Opaque(), [])


def test_the_context_is_no_argument() -> None:
    assert FunctionSignature("it", with_context).context == "ctx"
    assert round_trip(with_context, 5, b=1) == {"a": 5, "b": 1}
    with pytest.raises(InvalidArguments, match="has no argument 'ctx'"):
        round_trip(with_context, 5, ctx=1)


def test_an_annotation_that_cannot_be_resolved_leaves_the_others_standing() -> None:
    assert FunctionSignature("it", unresolved).context == "ctx"
    assert round_trip(unresolved, "anything", 5) == {"a": "anything", "b": 5}
    with pytest.raises(InvalidArguments, match="Expected `int`"):
        round_trip(unresolved, "anything", "5")


@pytest.mark.parametrize(
    ("args", "kwargs", "sentence"),
    [
        ((), {}, "it is missing 'a'; it takes \\(a, b=…\\)"),
        ((1, 2, 3), {}, "takes 2 positional arguments and got 3"),
        ((1,), {"a": 2}, "got argument 'a' twice"),
        ((1,), {"z": 2}, "has no argument 'z'"),
        ((float("nan"),), {}, "NaN or infinite"),
        (([{"x": float("inf")}],), {}, "NaN or infinite"),
        ((object(),), {}, "not JSON"),
        (("\x00",), {}, "NUL"),
        (("\ud800",), {}, "not JSON"),
        (({1j: 1},), {}, "not JSON"),
        (("x" * LIMIT,), {}, "the limit is 1,048,576"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_with_a_sentence(args: Any, kwargs: Any, sentence: str) -> None:
    with pytest.raises(InvalidArguments, match=sentence):
        round_trip(loose, *args, **kwargs)


def test_arguments_nested_beyond_reason_are_refused() -> None:
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(InvalidArguments, match="nested too deeply"):
        round_trip(loose, deep)


def test_arguments_by_name_must_be_one_object_with_string_keys(app: Stem) -> None:
    app.task(name="loose")(loose)
    app.task(name="more")(more)
    for wrong in ([1], "a", {1: 2}, {"a": 1, 5: 5}):
        for name in ("loose", "more", "elsewhere"):
            with pytest.raises(InvalidArguments):
                app.enqueue(name, args=wrong, check=False)  # type: ignore[arg-type]
    assert app.store.broker.depth() == {}


def test_a_result_is_read_as_its_annotation_says_and_as_it_is_where_that_was_not_kept() -> None:
    signature = FunctionSignature("it", returns_order)
    order = Order(uuid4(), [Point(1)])
    assert signature.decode_result(encode_json(order, what="the result", limit_bytes=LIMIT)) == order
    assert signature.decode_result(encode_json(None, what="the result", limit_bytes=LIMIT)) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="ascii", exclude_characters="\x00")), inner),
        max_leaves=20,
    )
)  # fmt: skip
def test_any_json_value_arrives_unchanged(value: Any) -> None:
    assert round_trip(loose, value) == {"a": value}
    assert msgspec.json.decode(encode_json(value, what="the result", limit_bytes=LIMIT)) == value


@pytest.mark.parametrize(
    "value",
    [
        Reading(float("nan")),
        [Reading(float("inf"))],
        {"a": Sample(float("-inf"))},
        Sample(Reading(float("nan"))),
        (None, {"x": {Reading(float("nan"))}}),
    ],
    ids=repr,
)
def test_no_number_becomes_null_wherever_it_hides(value: Any) -> None:
    with pytest.raises(InvalidArguments, match=r"A number in argument 'a' of .* is NaN or infinite"):
        round_trip(loose, value)
    with pytest.raises(InvalidArguments, match="A number in the result is NaN or infinite"):
        encode_json(value, what="the result", limit_bytes=LIMIT)


@pytest.mark.parametrize("depth", range(100, 1000, 50))
def test_deep_arguments_with_an_empty_place_are_stored_whole_or_refused_with_nothing_stored(
    app: Stem, depth: int
) -> None:
    deep: Any = None
    for _ in range(depth):
        deep = [deep]
    nested = b"[" * depth + b"null" + b"]" * depth
    work = app.task(name="work", unique="until_done")(loose)
    refused = None
    with ThreadPoolExecutor(1) as thread:  # whose stack is the same whatever runs the test
        try:
            thread.submit(work.enqueue, deep).result()
        except InvalidArguments as error:
            refused = str(error)
    stored = app.store.broker.claim(["default"], limit=2, lease_seconds=60)
    if refused is None:
        assert [bytes(each.envelope.args) for each in stored] == [b'{"a":%b}' % nested]
    else:
        assert depth >= 300 and "simplify them" in refused and stored == []
    with ThreadPoolExecutor(1) as thread:
        record = thread.submit(lambda: work.options(meta={"deep": deep}).enqueue(1).status()).result()
    assert msgspec.json.encode(record.meta["deep"]) == nested


def test_empty_values_stay_empty() -> None:
    assert round_trip(loose, Reading(None), b={"x": Sample(1.5)}) == {"a": {"value": None}, "b": {"x": {"value": 1.5}}}
