"""One call of a task, its JSON form, and everything it refuses to be."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stem.core.decisions.retry import Delays, Exponential, Fixed
from stem.core.envelope import (
    VERSION,
    Envelope,
    at_attempt,
    call_facts,
    check_headers,
    check_id,
    check_moment,
    check_name,
    check_priority,
    check_queue,
    decode,
    encode,
    encode_args,
    signed_bytes,
)
from stem.core.errors import EnvelopeUnreadable, InvalidArguments, InvalidTask
from stem.core.prerequisites import OnFailure
from support.builders import an_envelope

MIB = 1024 * 1024
texts = st.text(st.characters(exclude_characters="\x00", codec="utf-8"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
moments = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
seconds = st.none() | st.floats(0.001, 1e6)
envelopes = st.builds(
    Envelope,
    id=st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._:\-]{0,40}\Z"),
    name=st.just("demo.add"),
    args=st.dictionaries(texts, json_values, max_size=4).map(lambda args: encode_args(args, limit_bytes=MIB)),
    headers=st.dictionaries(texts, texts, max_size=3),
    enqueued_at=moments,
    not_before=st.none() | moments,
    priority=st.integers(0, 9),
    attempt=st.integers(0, 99),
    max_retries=st.integers(0, 99),
    visibility_timeout=seconds,
    queue=st.just("default"),
    meta=st.dictionaries(texts, json_values, max_size=4),
    version=st.just(VERSION),
    expires_at=st.none() | moments,
    retry=st.sampled_from([None, Exponential(1, 2, 0.25), Fixed(3.0), Delays((1.0, 2.0))]),
    soft_limit=seconds,
    hard_limit=seconds,
)


@given(envelopes)
def test_an_encoded_envelope_decodes_to_the_same(envelope: Envelope) -> None:
    assert decode(encode(envelope)) == envelope
    assert decode(encode(envelope).decode()) == envelope
    assert decode(encode(envelope), attempt=5).attempt == 5


def test_the_json_has_the_specifications_names() -> None:
    plain = json.loads(encode(an_envelope("a", args={"x": 1})))
    assert list(plain) == [
        "id", "name", "args", "headers", "enqueuedAt", "notBefore", "priority", "attempt", "maxRetries",
        "visibilityTimeout", "queue", "meta", "version",
    ]  # fmt: skip
    assert (plain["args"], plain["version"], plain["notBefore"]) == ({"x": 1}, 1, None)
    full = msgspec.structs.replace(
        an_envelope(), expires_at=datetime.now(UTC), retry=Exponential(), soft_limit=1.0, hard_limit=2.0
    )
    more = json.loads(encode(full))
    assert set(more) - set(plain) == {"expiresAt", "retry", "softLimit", "hardLimit"}
    assert more["retry"] == {"type": "exponential", "baseSeconds": 2.0, "capSeconds": 300.0, "jitter": 0.5}


def test_unknown_fields_are_ignored_so_that_others_may_add_theirs() -> None:
    body = json.loads(encode(an_envelope("a"))) | {"added": "later"}
    assert decode(json.dumps(body)).id == "a"


def test_an_envelope_of_a_newer_version_is_refused() -> None:
    newer = msgspec.structs.replace(an_envelope("a"), version=VERSION + 1)
    with pytest.raises(EnvelopeUnreadable, match="upgrade"):
        decode(encode(newer))


@pytest.mark.parametrize(
    "body",
    [b"", b"garbage", b"[]", b"{}", b"null", b'{"id":1}', b"\xff\xfe", b"[" * 100_000, b'{"id":"a"' + b" " * 10],
    ids=["empty", "text", "array", "object", "null", "wrong-type", "not-utf8", "deep", "cut-off"],
)
def test_garbage_is_refused_in_a_sentence(body: bytes) -> None:
    with pytest.raises(EnvelopeUnreadable, match="cannot be read"):
        decode(body)


def test_a_wrong_type_or_a_missing_field_is_refused() -> None:
    good = json.loads(encode(an_envelope()))
    for field in good:
        with pytest.raises(EnvelopeUnreadable):
            decode(json.dumps({name: value for name, value in good.items() if name != field}))
        if field != "args":  # stays encoded until the task runs
            with pytest.raises(EnvelopeUnreadable):
                decode(json.dumps(good | {field: [1]}))


def test_the_attempt_is_replaced_and_nothing_else() -> None:
    envelope = an_envelope()
    assert at_attempt(envelope, 0) is envelope
    assert at_attempt(envelope, 2) == msgspec.structs.replace(envelope, attempt=2)


def test_a_signature_covers_what_retry_requeue_and_replay_leave_alone() -> None:
    envelope = an_envelope("a", args={"x": 1, "y": 2}, headers={"h": "v"}, meta={"m": 1})
    same = [
        at_attempt(envelope, 3),
        msgspec.structs.replace(envelope, headers={"h": "v", "stem-signature": "s", "stem-signing-key": "k"}),
        msgspec.structs.replace(envelope, args=encode_args({"y": 2, "x": 1}, limit_bytes=MIB)),
        decode(encode(envelope)),
    ]
    assert all(signed_bytes(each) == signed_bytes(envelope) for each in same)
    changes: dict[str, Any] = {
        "id": "b", "name": "other", "args": encode_args({"x": 2}, limit_bytes=MIB), "headers": {"h": "w"},
        "queue": "other", "priority": 9, "max_retries": 9, "enqueued_at": datetime(2020, 1, 1, tzinfo=UTC),
        "not_before": datetime(2020, 1, 1, tzinfo=UTC), "expires_at": datetime(2020, 1, 1, tzinfo=UTC),
        "visibility_timeout": 9.0, "soft_limit": 9.0, "hard_limit": 9.0, "retry": Fixed(9.0), "meta": {"m": 2}, "version": 9,
        "after": ("b",), "on_failure": OnFailure.RUN, "inputs": {"x": "b"}, "sensitive": ("x",),
    }  # fmt: skip
    assert set(changes) == set(Envelope.__struct_fields__) - {"attempt"}
    for field, value in changes.items():
        assert signed_bytes(msgspec.structs.replace(envelope, **{field: value})) != signed_bytes(envelope), field
    waiting = msgspec.structs.replace(envelope, after=("b", "c"), inputs={"x": "b"})
    for field, other in {"after": ("c", "b"), "on_failure": OnFailure.ONLY, "inputs": {"y": "b"}}.items():
        assert signed_bytes(msgspec.structs.replace(waiting, **{field: other})) != signed_bytes(waiting), field


@dataclass
class Point:
    x: int


@given(st.dictionaries(texts, json_values, max_size=5))
def test_json_arguments_are_kept(arguments: dict[str, Any]) -> None:
    assert msgspec.json.decode(encode_args(arguments, limit_bytes=MIB)) == arguments


def test_dataclasses_times_and_tuples_become_json() -> None:
    encoded = encode_args({"p": Point(1), "at": datetime(2025, 1, 1, tzinfo=UTC), "t": (1, 2)}, limit_bytes=MIB)
    assert msgspec.json.decode(encoded) == {"p": {"x": 1}, "at": "2025-01-01T00:00:00Z", "t": [1, 2]}


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x": object()}, "not JSON"),
        ({"x": lambda: 1}, "not JSON"),
        ({"x": {1: {2: {object(): 3}}}}, "not JSON"),
        ({"x": nested(10_000)}, "nested too deeply"),
        ({"x": "a\x00b"}, "NUL"),
        ({"a\x00b": 1}, "NUL"),
        ({"x": {"y": ["\x00"]}}, "NUL"),
        ({"x": "\\\x00"}, "NUL"),
        ({"x": "y" * 200}, "limit is 100"),
    ],
    ids=["object", "function", "odd-key", "deep", "nul", "nul-in-key", "nul-inside", "nul-after-backslash", "too-long"],
)
def test_arguments_that_cannot_travel_are_refused_with_the_reason(arguments: dict[str, Any], said: str) -> None:
    limit = 100 if said.startswith("limit") else MIB
    with pytest.raises(InvalidArguments, match=said):
        encode_args(arguments, limit_bytes=limit)


def test_a_written_escape_is_not_a_nul() -> None:
    text = "\\u0000 and \\\\u0000"
    assert msgspec.json.decode(encode_args({"x": text}, limit_bytes=MIB)) == {"x": text}


def test_the_limit_is_exact() -> None:
    exact = len(encode_args({"x": "y" * 50}, limit_bytes=MIB))
    assert len(encode_args({"x": "y" * 50}, limit_bytes=exact)) == exact
    with pytest.raises(InvalidArguments, match="max_args_bytes"):
        encode_args({"x": "y" * 51}, limit_bytes=exact)


@pytest.mark.parametrize("check", [check_id, check_queue])
def test_ids_and_queues_are_plain_words(check: Any) -> None:
    for good in ("a", "A-1_2.3:4", "x" * 128, "0198c5f0-0000-7000-8000-000000000000"):
        assert check(good) == good
    for bad in (
        "",
        " ",
        "a b",
        "-a",
        ".a",
        ":a",
        "_a",
        "ü",
        "a\n",
        "a\x00",
        "x" * 129,
        "a/b",
        "a*",
        "{a}",
        "１",
        None,
        7,
        b"a",
    ):
        with pytest.raises(InvalidTask):
            check(bad)


def test_task_names_are_dotted_words() -> None:
    for good in ("demo.add", "_private", "pkg.mod:Class.<locals>.f", "x" * 255):
        assert check_name(good) == good
    for bad in ("", " ", "a b", "-a", "<a", "a\n", "ü", "x" * 256, "a/b", None, 7):
        with pytest.raises(InvalidTask):
            check_name(bad)  # type: ignore[arg-type]


def test_priorities_go_from_zero_to_nine() -> None:
    assert [check_priority(n) for n in range(10)] == list(range(10))
    for bad in (-1, 10, 12, 1.0, True, "5", None):
        with pytest.raises(InvalidTask, match=r"0 \(last\) to 9 \(first\)"):
            check_priority(bad)  # type: ignore[arg-type]


def test_moments_have_a_zone_and_become_utc() -> None:
    at = datetime(2025, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert check_moment(at, "not_before") == at
    assert check_moment(at, "not_before").tzinfo is UTC
    with pytest.raises(InvalidTask, match=r"not_before .* time zone"):
        check_moment(datetime(2025, 1, 1), "not_before")


def test_headers_are_strings_and_the_reserved_are_refused() -> None:
    assert check_headers({"traceparent": "00-1", "X-Tenant_1.a": "ü"}) == {"traceparent": "00-1", "X-Tenant_1.a": "ü"}
    for name in ("stem-signature", "Stem-Anything", "STEM-", "", "a b", "ü", "a\n", "x" * 65, 7):
        with pytest.raises(InvalidTask):
            check_headers({name: "v"})  # type: ignore[dict-item]
    for value in (None, 7, b"x", "a\x00b"):
        with pytest.raises(InvalidTask):
            check_headers({"h": value})  # type: ignore[dict-item]


def test_a_refused_name_is_told_how_it_may_begin() -> None:
    assert check_name("_private.task") == "_private.task"
    with pytest.raises(InvalidTask, match="beginning with a letter, digit or '_'"):
        check_name("-x")
    with pytest.raises(InvalidTask, match="beginning with a letter or digit"):
        check_queue("_x")


@pytest.mark.parametrize("args", [b"5", b"[1]", b'{"x":1e999}', b'{"x":"\xff"}', b'{"x":%s}' % (b"9" * 5000)])
def test_arguments_that_cannot_be_read_are_named_as_such(args: bytes) -> None:
    envelope = msgspec.structs.replace(an_envelope(), args=msgspec.Raw(args))
    with pytest.raises(EnvelopeUnreadable, match="arguments of"):
        envelope.arguments()
    with pytest.raises(EnvelopeUnreadable, match="arguments of"):
        signed_bytes(envelope)


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({}, {}),
        ({"headers": {"tenant": "acme"}}, {"tenant": "acme"}),
        ({"headers": {"x": "tenant"}, "args": msgspec.Raw(b'{"tenant":"no"}')}, {}),
        ({"not_before": datetime(2026, 1, 2, tzinfo=UTC)}, {"dueAt": "2026-01-02T00:00:00Z"}),
    ],
)
def test_events_tell_of_a_call_its_tenant_and_when_it_was_due(changes: dict[str, Any], facts: dict[str, Any]) -> None:
    assert call_facts(encode(msgspec.structs.replace(an_envelope("a"), **changes))) == facts
    assert call_facts(b'{"tenant"') == {}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", -1),
        ("priority", 10),
        ("priority", 2**70),
        ("attempt", -1),
        ("attempt", 2**62),
        ("maxRetries", -1),
        ("maxRetries", 2**62),
        ("visibilityTimeout", -1.0),
        ("visibilityTimeout", 1e300),
        ("softLimit", -0.5),
        ("hardLimit", 1e300),
        ("version", -1),
        ("retry", {"type": "fixed", "delaySeconds": 1e300}),
        ("retry", {"type": "fixed", "delaySeconds": -1}),
        ("retry", {"type": "delays", "seconds": [1, 1e300]}),
        ("retry", {"type": "exponential", "baseSeconds": 1e300}),
        ("retry", {"type": "exponential", "capSeconds": 1e300}),
        ("retry", {"type": "exponential", "jitter": 1e300}),
        ("retry", {"type": "exponential", "jitter": -1}),
    ],
)
def test_a_stored_number_out_of_bounds_is_refused(field: str, value: object) -> None:
    body = msgspec.json.decode(encode(an_envelope("a")))
    with pytest.raises(EnvelopeUnreadable):
        decode(msgspec.json.encode({**body, field: value}))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 400])
def test_a_number_that_is_not_finite_is_refused(number: str) -> None:
    body = encode(msgspec.structs.replace(an_envelope("a"), hard_limit=7.25))
    assert b'"hardLimit":7.25' in body
    with pytest.raises(EnvelopeUnreadable):
        decode(body.replace(b'"hardLimit":7.25', f'"hardLimit":{number}'.encode()))


@pytest.mark.parametrize("attempt", [-1, 2**62])
def test_an_attempt_that_no_store_could_have_counted_is_refused(attempt: int) -> None:
    with pytest.raises(EnvelopeUnreadable, match="for the attempt of a"):
        decode(encode(an_envelope("a")), attempt=attempt)
