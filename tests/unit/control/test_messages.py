"""Commands and replies as JSON: the specification's names, and limits on everything."""

from typing import Any

import msgspec
import pytest

from stem.core.control import (
    MAX_COMMAND_BYTES,
    MAX_REPLY_BYTES,
    MAX_TARGETS,
    Auth,
    MessageUnreadable,
    Reply,
    ReplyError,
    canonical,
    decode_command,
    decode_reply,
    encode_command,
    encode_reply,
)
from stem.core.errors import UsageError
from support.workers.steerable import a_command

NOW = 1_800_000_000.0
GOOD = msgspec.json.decode(encode_command(a_command(NOW)))


def test_a_command_has_the_names_of_the_specification() -> None:
    command = a_command(NOW, "revoke", request_id="r1", nonce="n" * 16, payload={"taskIds": ["a"]}, targets=("w", "*"))
    assert msgspec.json.decode(encode_command(command)) == {
        "requestId": "r1",
        "type": "revoke",
        "targets": ["w", "*"],
        "payload": {"taskIds": ["a"]},
        "timeoutMs": 5000,
        "auth": None,
        "nonce": "n" * 16,
        "issuedAt": 1_800_000_000_000,
        "expiresAt": 1_800_000_005_000,
    }
    assert decode_command(encode_command(command)) == command


def test_a_reply_has_the_names_of_the_specification() -> None:
    reply = Reply(
        request_id="r1", worker_id="w@host:1", status="error", error=ReplyError(message="No.", code="rate-limited")
    )
    assert msgspec.json.decode(encode_reply(reply)) == {
        "requestId": "r1",
        "workerId": "w@host:1",
        "status": "error",
        "payload": {},
        "error": {"message": "No.", "code": "rate-limited"},
    }
    assert decode_reply(encode_reply(reply)) == reply


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("requestId", ""),
        ("requestId", "a/b"),
        ("requestId", "x" * 129),
        ("requestId", "a\n"),
        ("type", "Ping"),
        ("type", "p" * 65),
        ("type", "ping\n"),
        ("targets", []),
        ("targets", ["w 1"]),
        ("targets", ["w1\n"]),
        ("targets", ["w"] * (MAX_TARGETS + 1)),
        ("targets", "w1"),
        ("payload", []),
        ("timeoutMs", 0),
        ("timeoutMs", 600_001),
        ("timeoutMs", "5000"),
        ("nonce", "short"),
        ("issuedAt", -1),
        ("issuedAt", GOOD["expiresAt"]),
        ("expiresAt", GOOD["issuedAt"] + 600_001),
        ("auth", {"signature": "x"}),
        ("auth", {"signature": "x" * 513, "keyId": "k"}),
    ],
)
def test_a_message_out_of_bounds_is_not_read(field: str, value: Any) -> None:
    assert decode_command(msgspec.json.encode(GOOD))
    with pytest.raises(MessageUnreadable):
        decode_command(msgspec.json.encode({**GOOD, field: value}))


NOT_OF_THE_SPECIFICATION = ("auth", "nonce", "issuedAt", "expiresAt")


@pytest.mark.parametrize("field", [name for name in GOOD if name not in NOT_OF_THE_SPECIFICATION])
def test_no_field_of_the_specification_may_be_missing(field: str) -> None:
    without = {name: value for name, value in GOOD.items() if name != field}
    with pytest.raises(MessageUnreadable):
        decode_command(msgspec.json.encode(without))


def test_a_command_is_read_up_to_256_kb_and_not_sent_beyond() -> None:
    empty = len(encode_command(a_command(NOW, payload={"x": ""})))
    fits = a_command(NOW, payload={"x": "y" * (MAX_COMMAND_BYTES - empty)})
    assert len(encode_command(fits)) == MAX_COMMAND_BYTES
    assert decode_command(encode_command(fits)) == fits
    larger = a_command(NOW, payload={"x": "y" * (MAX_COMMAND_BYTES - empty + 1)})
    with pytest.raises(UsageError, match="in parts"):
        encode_command(larger)
    with pytest.raises(MessageUnreadable, match="over the limit"):
        decode_command(msgspec.json.encode(larger))


def test_a_reply_that_nobody_would_read_is_not_sent() -> None:
    reply = Reply(request_id="r", worker_id="w", status="ok", payload={"x": "y" * MAX_REPLY_BYTES})
    with pytest.raises(UsageError, match="ask for less"):
        encode_reply(reply)
    with pytest.raises(UsageError, match="plain values"):
        encode_reply(Reply(request_id="r", worker_id="w", status="ok", payload={"x": object()}))


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"null", b"\xff\xfe", b'{"a":' * 100_000, b"[" * 100_000, b'"\\ud800"', b"1" * 300]
)
def test_a_message_that_is_no_json_object_is_unreadable(raw: bytes) -> None:
    for decode in (decode_command, decode_reply):
        with pytest.raises(MessageUnreadable):
            decode(raw)


def test_the_signed_bytes_do_not_depend_on_the_order_of_keys_nor_on_the_signature() -> None:
    one = a_command(NOW, request_id="r", nonce="n" * 16, payload={"b": {"y": 1, "x": 2.0}, "a": [3]})
    other = a_command(NOW, request_id="r", nonce="n" * 16, payload={"a": [3], "b": {"x": 2.0, "y": 1}})
    signed = msgspec.structs.replace(other, auth=Auth(signature="s", key_id="k"))
    assert canonical(one) == canonical(signed)
    assert canonical(one).startswith(b'{"expiresAt":1800000005000,"issuedAt":1800000000000,"nonce":"nnnn')
    assert b'"payload":{"a":[3],"b":{"x":2.0,"y":1}}' in canonical(one)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("request_id", "other"),
        ("type", "shutdown"),
        ("targets", ("w2",)),
        ("payload", {"mode": "hard"}),
        ("timeout_ms", 7),
        ("nonce", "m" * 16),
        ("issued_at", 1_799_999_999_999),
        ("expires_at", 1_800_000_005_001),
    ],
)
def test_the_signed_bytes_cover_every_other_field(field: str, value: Any) -> None:
    command = a_command(NOW)
    assert canonical(msgspec.structs.replace(command, **{field: value})) != canonical(command)
