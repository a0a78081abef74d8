"""Sensitive arguments: masked by name or path, and nothing else is changed."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stem import Stem, chain
from stem.core.envelope import Envelope, decode, encode, signed_bytes
from stem.core.errors import InvalidArguments, InvalidTask, UsageError
from stem.core.text.masking import MASK
from stem.core.text.sensitive import (
    masked_args,
    masked_object,
    sensitive_values,
    unmasked_object,
    without_values,
)
from support.builders import a_push

NAMES = ("card", "payment.cvv", "items.secret")
CALL = (
    b'{"card":{"number":"4111"},"big":123456789012345678901234567890,"price":1.10,'
    b'"payment":{"cvv":123,"to":"ada"},"items":[{"secret":"x","n":1},{"n":2}]}'
)


def test_the_named_values_are_masked_and_everything_else_stays_as_it_was_written() -> None:
    assert masked_args(CALL, NAMES) == (
        b'{"card":"***","big":123456789012345678901234567890,"price":1.10,'
        b'"payment":{"cvv":"***","to":"ada"},"items":[{"secret":"***","n":1},{"n":2}]}'
    )
    assert masked_args(CALL, ()) == CALL


@pytest.mark.parametrize("args", [b'{"payment":"cvv=123"}', b'{"payment":["cvv=123"]}', b'{"payment":[["cvv=123"]]}'])
def test_where_a_path_meets_something_else_that_is_masked_whole(args: bytes) -> None:
    assert b"123" not in masked_args(args, NAMES)


@pytest.mark.parametrize("args", [b'{"card":', b"4111", b'["4111"]', b'{"card":"\xff4111"}', b"[" * 5000])
def test_what_cannot_be_read_is_masked_whole(args: bytes) -> None:
    assert b"4111" not in masked_args(args, NAMES)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), _json))
def test_masking_and_unmasking_give_back_what_was(arguments: dict[str, object]) -> None:
    names = ("a.b", "b", "c.a.c")
    masked = msgspec.json.decode(masked_args(msgspec.json.encode(arguments), names))
    assert masked == masked_object(arguments, names)
    assert unmasked_object(masked, arguments, names) == arguments


def test_an_edit_keeps_what_is_still_masked_and_takes_what_was_written() -> None:
    before = {"card": "4111", "to": "ada", "items": [{"secret": "x"}]}
    edited = {"card": MASK, "to": MASK, "items": [{"secret": "new"}]}
    assert unmasked_object(edited, before, NAMES) == {"card": "4111", "to": MASK, "items": [{"secret": "new"}]}
    with pytest.raises(UsageError, match="no value before"):
        unmasked_object({"items": [{}, {"secret": MASK}]}, before, NAMES)


def test_values_are_found_in_texts_longest_first() -> None:
    values = sensitive_values({"card": {"number": "4111", "more": 411122}, "payment": {"cvv": 12}}, NAMES)
    assert without_values("of 4111, 411122 and 12", values) == "of ***, *** and 12"
    assert without_values(repr("it's\n4111"), sensitive_values({"card": "it's\n4111"}, NAMES)).count("4111") == 0


def test_the_names_travel_in_the_envelope_and_under_its_signature() -> None:
    plain = a_push("a").envelope
    named = msgspec.structs.replace(plain, sensitive=("card",), args=msgspec.Raw(b'{"card":"4111"}'))
    assert b"sensitive" not in encode(plain) and decode(encode(named)).sensitive == ("card",)
    assert decode(encode(named)).shown_args == b'{"card":"***"}'
    less: Envelope = msgspec.structs.replace(named, sensitive=())
    assert signed_bytes(less) != signed_bytes(named)


def test_a_name_that_is_no_argument_is_refused() -> None:
    app = Stem("memory://")
    for names, sentence in (
        (["crad"], "'crad', and the task has no such argument"),
        ("card", "give a list"),
        (["card number"], "name an argument"),
        ([7], "name an argument"),
    ):
        with pytest.raises(InvalidTask, match=sentence):
            app.task(name="pay", sensitive=names)(lambda card: None)  # type: ignore[arg-type]


def test_what_the_check_of_arguments_says_has_no_sensitive_value() -> None:
    from support.worker_apps.paying import app

    with pytest.raises(InvalidArguments) as refused:
        app.tasks["change"].enqueue(coin="t0psecret")
    assert "***" in str(refused.value) and "t0psecret" not in str(refused.value)
    assert refused.value.__cause__ is None and refused.value.__suppress_context__


def test_a_signature_of_a_canvas_does_not_print_them() -> None:
    app = Stem("memory://")
    pay = app.task(name="pay", sensitive=["card"])(lambda card, to: None)
    printed = repr(chain(pay.s(card="4111", to="ada"), pay.s("4111", "ada")))
    assert "4111" not in printed and "to='ada'" in printed


def test_a_call_can_name_more_than_its_task() -> None:
    app = Stem("memory://")
    pay = app.task(name="pay", sensitive=["card"])(lambda card, to: None)
    handle = pay.options(sensitive=["to"]).enqueue("4111", "ada")
    found = app.store.broker.find(handle.id)
    assert found is not None and decode(found.body).shown_args == b'{"card":"***","to":"***"}'
