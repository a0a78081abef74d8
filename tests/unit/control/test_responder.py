"""What a worker makes of what it hears: obeyed, refused with a reason, or left unanswered; never an exception."""

import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stem.control import admission
from stem.control.registry import all_commands, find_command
from stem.control.responder import Responder
from stem.control.signing import sign, verify_reply
from stem.core.control import (
    MAX_COMMAND_BYTES,
    MAX_REPLY_BYTES,
    Command,
    Reply,
    canonical,
    decode_command,
    encode_command,
)
from stem.core.errors import SignatureInvalid, StoreUnavailable, UsageError
from stem.runtime.clock import FakeClock
from stem.runtime.keys import Keyring
from support.workers.steerable import Steered, a_command

OLD = "old:hmac-sha256:" + "b2xk" * 8
NEW = "new:ed25519:" + "bmV3" * 10 + "bmU="


class Rig:
    """A responder by an imagined clock."""

    def __init__(self, keys: str = "", *, per_second: float = 1e6, worker: Steered | None = None) -> None:
        self.clock = FakeClock()
        self.worker = worker or Steered()
        self.keyring = Keyring.parse(keys)
        self.machine = FakeClock(100.0)  # the worker's own, which nobody can set back
        self.responder = Responder(
            self.worker,
            namespace="ns",
            clock=self.clock,
            keyring=self.keyring,
            commands_per_second=per_second,
            monotonic=self.machine,
        )

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.machine.advance(seconds)

    def command(self, type: str = "ping", **fields: Any) -> Command:
        return a_command(self.clock(), type, **fields)

    def say(self, command: Command) -> Reply | None:
        return self.responder.answer(encode_command(command))

    def tell(self, type: str, **payload: Any) -> Reply:
        reply = self.say(sign(self.command(type, payload=payload), self.keyring, namespace="ns"))
        assert reply is not None
        return reply

    def code(self, command: Command) -> str | None:
        reply = self.say(command)
        assert reply is not None and reply.worker_id == "w1" and reply.request_id == command.request_id
        return None if reply.error is None else reply.error.code


def code_of(reply: Reply | None) -> str:
    assert reply is not None and reply.status == "error" and reply.error is not None and reply.error.message
    return reply.error.code


LISTED = {"state": "ok", "tasks": [{"id": "t1"}]}


@pytest.mark.parametrize(
    ("type", "payload", "told", "answer"),
    [
        ("ping", {}, ("pong",), {"pong": True, "workerId": "w1", "state": "ok"}),
        ("stats", {}, ("stats", False), {"concurrency": 4}),
        ("stats", {"includeTasks": True}, ("stats", True), {"concurrency": 4}),
        ("list-active", {}, ("active", {}), LISTED),
        ("inspect", {"filters": {"queue": "q"}}, ("active", {"queue": "q"}), LISTED),
        ("active", {"filters": {"task": "n", "id": "i"}}, ("active", {"task": "n", "id": "i"}), LISTED),
        ("shutdown", {}, ("shutdown", "warm"), {"mode": "warm", "state": "draining"}),
        ("shutdown", {"mode": "cold"}, ("shutdown", "soft"), {"mode": "soft", "state": "draining"}),
        ("shutdown", {"mode": "force"}, ("shutdown", "hard"), {"mode": "hard", "state": "draining"}),
        ("autoscale-config", {"max": 9}, ("autoscale", {"max": 9}), {"autoscale": {"min": 2, "max": 9}}),
        ("pause", {"queues": ["a"]}, ("pause", ["a"]), {"paused": ["a"]}),
        ("resume", {"queues": ["a"]}, ("resume", ["a"]), {"paused": []}),
        ("queue-status", {}, ("queue_status",), {"state": "ok", "queues": {"default": {"paused": False}}}),
        ("rate-limit", {"task": "t", "rate": "5/s"}, ("rate_limit", "t", "5/s"), {"task": "t", "rateLimit": "5/s"}),
        ("rate-limit", {"task": "t"}, ("rate_limit", "t", None), {"task": "t", "rateLimit": None}),
        ("recycle", {}, ("recycle", None), {"recycling": [1, 2]}),
        ("recycle", {"isolates": [7]}, ("recycle", [7]), {"recycling": [7]}),
        (
            "revoke",
            {"taskIds": ["a", "b", "a"], "terminate": True, "signal": "SIGINT"},
            ("revoke", [("a", 0), ("b", 0)], True, "SIGINT"),
            {"tasks": {"a": "noted", "b": "noted"}},
        ),
        (
            "revoke",
            {"taskIds": ["a"], "records": [{"taskId": "a", "version": 4, "createdAt": "2026-01-01T00:00:00Z"}]},
            ("revoke", [("a", 4)], False, "SIGTERM"),
            {"tasks": {"a": "noted"}},
        ),
    ],
)  # fmt: skip
def test_each_command_reaches_the_worker(
    type: str, payload: dict[str, Any], told: tuple[Any, ...], answer: dict[str, Any]
) -> None:
    rig = Rig()
    reply = rig.tell(type, **payload)
    assert (reply.status, reply.error, reply.payload) == ("ok", None, answer)
    assert rig.worker.told == [told]
    assert rig.responder.counts == {"ok": 1}


@pytest.mark.parametrize(
    ("type", "payload"),
    [
        ("ping", {"extra": 1}),
        ("stats", {"includeTasks": "yes"}),
        ("list-active", {"filters": {"color": "red"}}),
        ("revoke", {}),
        ("revoke", {"taskIds": "a"}),
        ("revoke", {"taskIds": ["a b"]}),
        ("revoke", {"taskIds": ["a"], "terminat": True}),
        ("revoke", {"taskIds": ["a"], "signal": "SIGSTOP"}),
        ("revoke", {"records": [{"taskId": "a"}]}),
        ("shutdown", {"mode": "now"}),
        ("pause", {"queues": [1]}),
        ("pause", {"queues": ["a b"]}),
        ("rate-limit", {"task": "t", "rate": "often"}),
        ("rate-limit", {"rate": "5/s"}),
        ("recycle", {"isolates": [0]}),
        ("recycle", {"isolates": []}),
    ],
)
def test_a_bad_payload_is_told_and_nothing_is_done(type: str, payload: dict[str, Any]) -> None:
    rig = Rig()
    assert code_of(rig.tell(type, **payload)) == "invalid-payload"
    assert rig.worker.told == []
    assert rig.responder.counts == {"invalid-payload": 1}


def test_an_unknown_command_is_told_which_there_are() -> None:
    reply = Rig().tell("explode")
    assert code_of(reply) == "unknown-command"
    assert reply.error is not None and "ping, queue-status, rate-limit" in reply.error.message


def test_the_registry_lists_every_command_once_with_its_help() -> None:
    assert [entry.name for entry in all_commands()] == [
        "autoscale-config", "list-active", "pause", "ping", "queue-status", "rate-limit", "recycle", "resume", "revoke",
        "shutdown", "stats",
    ]  # fmt: skip
    assert all(entry.summary.endswith(".") for entry in all_commands())
    assert find_command("inspect") is find_command("active") is find_command("list-active")
    looking = {entry.name for entry in all_commands() if not entry.changes}
    assert looking == {"ping", "stats", "list-active", "queue-status"}


def test_commands_for_other_workers_are_ignored() -> None:
    rig = Rig()
    assert rig.say(rig.command("shutdown", targets=("w2", "w11"))) is None
    assert rig.say(rig.command(targets=("w2", "w1"))) is not None
    assert rig.worker.told == [("pong",)]
    assert rig.responder.counts == {"ok": 1}


def test_a_command_that_is_json_but_no_command_is_told_so_if_it_is_for_this_worker() -> None:
    rig = Rig()
    fields = msgspec.json.decode(encode_command(rig.command()))
    for targets, is_told in ((["w1"], True), (["*"], True), (["w2"], False)):
        raw = msgspec.json.encode({**fields, "timeoutMs": 0, "targets": targets})
        reply = rig.responder.answer(raw)
        assert (code_of(reply) if reply else None) == ("invalid-command" if is_told else None)
    assert rig.responder.answer(b"{not json") is None
    assert rig.responder.answer(b'{"requestId": "r"}') is None
    assert rig.responder.answer(b" " * (MAX_COMMAND_BYTES + 1)) is None
    assert rig.responder.counts == {"invalid-command": 4, "too-large": 1}


@pytest.mark.parametrize("keys", [OLD, NEW])
def test_where_keys_are_set_only_a_signed_and_untouched_command_is_obeyed(
    keys: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(keys)
    good = sign(rig.command("shutdown", payload={"mode": "warm"}), rig.keyring, namespace="ns")
    assert good.auth is not None
    foreign = Keyring.parse("old:hmac-sha256:" + "eHh4" * 8)
    bad = [
        msgspec.structs.replace(good, auth=None),
        msgspec.structs.replace(good, payload={"mode": "hard"}),
        msgspec.structs.replace(good, targets=("*", "w1")),
        msgspec.structs.replace(good, expires_at=(good.expires_at or 0) + 1),
        msgspec.structs.replace(good, nonce="0" * 32),
        msgspec.structs.replace(good, auth=msgspec.structs.replace(good.auth, key_id="other")),
        msgspec.structs.replace(good, auth=msgspec.structs.replace(good.auth, signature="!")),
        sign(rig.command("shutdown"), foreign, namespace="ns"),
        sign(rig.command("shutdown"), rig.keyring, namespace="another-fleet"),
    ]
    with caplog.at_level(logging.WARNING, "stem.control"):
        assert [rig.code(command) for command in bad] == ["signature-invalid"] * len(bad)
    assert rig.worker.told == []
    assert rig.responder.counts == {"signature-invalid": len(bad)}
    assert [record.getMessage().startswith("control.refused code=signature-invalid") for record in caplog.records] == [
        True
    ], "the first at once, the rest as a count"
    assert rig.code(good) is None
    assert rig.worker.told == [("shutdown", "warm")]


def test_keys_are_rotated_with_overlap() -> None:
    rig = Rig(f"{OLD},{NEW}")
    for keys in (OLD, f"{NEW},{OLD}"):
        assert rig.code(sign(rig.command(), Keyring.parse(keys), namespace="ns")) is None
    after = Rig(NEW)
    assert after.code(sign(after.command(), Keyring.parse(OLD), namespace="ns")) == "signature-invalid"


def test_a_command_is_obeyed_until_it_expires_and_not_after() -> None:
    rig = Rig()
    early, late = rig.command(life=5), rig.command(life=5)
    rig.pass_time(4.9)
    assert rig.code(early) is None
    rig.pass_time(0.2)
    assert rig.code(late) == "expired"
    assert rig.responder.counts == {"ok": 1, "expired": 1}


def test_a_command_from_before_the_worker_listened_is_not_for_it() -> None:
    rig = Rig()
    assert rig.code(rig.command(age=0.01, life=60)) == "expired"
    assert rig.worker.told == []
    assert rig.code(rig.command(life=60)) is None


def test_a_command_from_the_future_is_refused() -> None:
    rig = Rig()
    assert rig.code(rig.command(age=-601, life=5)) == "not-yet-valid"
    assert rig.code(rig.command(age=-1, life=5)) is None


def test_a_clock_that_was_set_back_does_not_make_a_worker_deaf() -> None:
    rig = Rig()
    rig.clock.advance(-3600)
    assert rig.code(rig.command()) is None


def test_a_nonce_is_obeyed_once() -> None:
    rig = Rig(OLD)
    command = sign(rig.command("pause", payload={"queues": ["a"]}, life=600), rig.keyring, namespace="ns")
    assert rig.code(command) is None
    for seconds in (0, 1, 300, 298):
        rig.pass_time(seconds)
        assert rig.code(command) == "replayed"
    rig.pass_time(2)
    assert rig.code(command) == "expired"
    assert rig.worker.told == [("pause", ["a"])]


@pytest.mark.parametrize("back", [5.0, 600.0, 86_400.0])
def test_a_store_that_sets_its_clock_back_revives_no_recorded_command(back: float) -> None:
    rig = Rig(OLD)
    obeyed = sign(rig.command("shutdown", life=600), rig.keyring, namespace="ns")
    unheard = sign(rig.command("pause", payload={"queues": ["a"]}, life=5), rig.keyring, namespace="ns")
    assert rig.code(obeyed) is None
    rig.pass_time(700)
    assert rig.code(obeyed) == rig.code(unheard) == "expired"
    rig.clock.advance(-back)
    for command in (obeyed, unheard):
        for seconds in (0.0, 1.0, 1000.0):
            rig.pass_time(seconds)
            assert rig.code(command) == "expired"
    assert rig.worker.told == [("shutdown", "warm")]


def test_a_nonce_is_remembered_while_the_stores_clock_stands_still() -> None:
    rig = Rig(OLD)
    command = sign(rig.command("shutdown", life=600), rig.keyring, namespace="ns")
    assert rig.code(command) is None
    for _ in range(20):
        rig.machine.advance(60)
        assert rig.code(command) in ("replayed", "expired")
    assert rig.worker.told == [("shutdown", "warm")]


def test_a_worker_whose_stores_clock_was_set_back_says_what_to_do() -> None:
    rig = Rig(OLD)
    rig.tell("ping")
    rig.clock.advance(-3600)
    reply = rig.tell("ping")
    assert code_of(reply) == "expired"
    assert reply.error is not None and "restart the worker" in reply.error.message


def test_a_clock_that_drifts_is_followed() -> None:
    rig = Rig(OLD)
    for _ in range(100):
        rig.machine.advance(3600)
        rig.clock.advance(3600 * 0.9995)
        assert rig.tell("ping").status == "ok"


def specification_message(**fields: Any) -> bytes:
    """As specification 000 has it, and no more."""
    message = {"requestId": "r-1", "type": "ping", "targets": ["*"], "payload": {}, "timeoutMs": 5000}
    return msgspec.json.encode({**message, **fields})


def test_the_message_of_the_specification_is_obeyed_without_keys_and_told_what_it_lacks_with_them() -> None:
    auth = {"signature": "c2ln", "keyId": "old"}
    bare: list[dict[str, Any]] = [{}, {"auth": auth}, {"auth": None}]
    for fields in bare:
        reply = Rig().responder.answer(specification_message(**fields))
        assert reply is not None and (reply.status, reply.request_id) == ("ok", "r-1")
    revoking = Rig()
    told = revoking.responder.answer(specification_message(type="revoke", payload={"taskIds": ["a"]}))
    assert told is not None and told.payload == {"tasks": {"a": "noted"}}

    rig = Rig(OLD)
    times = {"nonce": "n" * 16, "issuedAt": int(rig.clock() * 1000)}
    lacking: list[tuple[dict[str, Any], str]] = [
        ({}, "auth"),
        ({"auth": auth}, "nonce"),
        ({"auth": auth, "nonce": "n" * 16}, "issuedAt"),
        ({"auth": auth, **times}, "expiresAt"),
    ]
    for fields, missing in lacking:
        refused = rig.responder.answer(specification_message(**fields))
        assert refused is not None and refused.error is not None and f"no `{missing}`" in refused.error.message
    assert rig.worker.told == []


def test_a_reply_is_signed_for_its_command_its_worker_and_what_it_says() -> None:
    rig = Rig(f"{NEW},{OLD}")
    command = sign(rig.command("stats"), rig.keyring, namespace="ns")
    reply = rig.say(command)
    assert reply is not None
    verify_reply(reply, command, rig.keyring, namespace="ns")
    change = msgspec.structs.replace
    for forged in (
        change(reply, auth=msgspec.UNSET),
        change(reply, auth=None),
        change(reply, worker_id="w2"),
        change(reply, payload={"concurrency": 5}),
        change(reply, status="error"),
        change(reply, request_id="r-other"),
    ):
        with pytest.raises(SignatureInvalid):
            verify_reply(forged, command, rig.keyring, namespace="ns")
    with pytest.raises(SignatureInvalid):
        verify_reply(reply, change(command, nonce="n" * 16), rig.keyring, namespace="ns")
    with pytest.raises(SignatureInvalid):
        verify_reply(reply, command, rig.keyring, namespace="another-fleet")
    refusal = rig.say(change(command, auth=None))
    assert refusal is not None
    verify_reply(refusal, change(command, auth=None), rig.keyring, namespace="ns")


@pytest.mark.parametrize("twin", [{"auth": None}, {"type": "shutdown"}], ids=["unsigned", "altered"])
def test_the_refusal_of_a_forged_twin_is_no_answer_to_the_genuine_command(twin: dict[str, Any]) -> None:
    rig = Rig(OLD)
    genuine = sign(rig.command(), rig.keyring, namespace="ns")
    refusal = rig.say(msgspec.structs.replace(genuine, **twin))
    assert refusal is not None and code_of(refusal) == "signature-invalid"
    with pytest.raises(SignatureInvalid):
        verify_reply(refusal, genuine, rig.keyring, namespace="ns")
    answer = rig.say(genuine)
    assert answer is not None
    verify_reply(answer, genuine, rig.keyring, namespace="ns")


def test_a_command_that_is_nested_too_deeply_is_refused_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(OLD)
    plain = encode_command(rig.command(payload={"deep": "here"}))
    for depth in (900, 990, 1_500):
        reply = rig.responder.answer(plain.replace(b'"here"', b"[" * depth + b"]" * depth))
        assert reply is None or code_of(reply) in ("signature-invalid", "invalid-command")
    assert "Traceback" not in caplog.text


def test_a_thousand_forgeries_are_two_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(OLD)
    with caplog.at_level(logging.WARNING, "stem.control"):
        for _ in range(1000):
            assert rig.code(rig.command("shutdown")) == "signature-invalid"
        assert len(caplog.records) == 1
        rig.pass_time(60)
        rig.responder.flush()
        rig.responder.flush()
    assert [record.getMessage() for record in caplog.records][1].endswith("(and 998 more since the last such line)")
    assert len(caplog.records) == 2
    assert rig.responder.counts == {"signature-invalid": 1000}


def test_an_obeyed_command_is_logged_with_the_key_that_signed_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "stem.control"):
        Rig(OLD).tell("pause", queues=["a"])
        Rig().tell("pause", queues=["a"])
    assert [record.getMessage().rpartition(" ")[2] for record in caplog.records] == ["key=old", "key=-"]


def test_nonces_are_forgotten_with_their_commands_and_never_more_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "MOST_NONCES", 5)
    rig = Rig()
    assert [rig.code(rig.command(life=10)) for _ in range(6)] == [None] * 5 + ["rate-limited"]
    rig.pass_time(12)
    assert rig.code(rig.command()) is None


def test_over_the_rate_is_refused_and_the_rate_comes_back() -> None:
    rig = Rig(per_second=10)
    codes = [rig.code(rig.command()) for _ in range(15)]
    assert codes == [None] * 10 + ["rate-limited"] * 5
    rig.pass_time(0.3)
    assert [rig.code(rig.command()) for _ in range(4)] == [None] * 3 + ["rate-limited"]
    assert rig.responder.counts == {"ok": 13, "rate-limited": 6}
    assert len(rig.worker.told) == 13


def test_a_flood_of_forgeries_takes_nothing_from_the_rate() -> None:
    rig = Rig(OLD, per_second=10)
    for _ in range(100):
        assert rig.code(rig.command()) == "signature-invalid"
        assert rig.code(sign(rig.command(age=9), rig.keyring, namespace="ns")) == "expired"
    assert [code_of(rig.tell("explode")) for _ in range(10)] == ["unknown-command"] * 10
    assert code_of(rig.tell("ping")) == "rate-limited"


def test_a_worker_that_fails_to_obey_says_so() -> None:
    class Failing(Steered):
        def __init__(self, error: Exception) -> None:
            super().__init__()
            self.error = error

        def pong(self) -> dict[str, Any]:
            raise self.error

    for error, code, message in (
        (UsageError("No such queue."), "invalid-payload", "No such queue."),
        (StoreUnavailable("Gone."), "failed", "Gone."),
        (RuntimeError("secret"), "failed", "The worker failed to obey; see its log."),
    ):
        reply = Rig(worker=Failing(error)).tell("ping")
        assert code_of(reply) == code
        assert reply.error is not None and reply.error.message == message


@pytest.mark.parametrize("answer", [{"x": "y" * MAX_REPLY_BYTES}, {"x": object()}])
def test_an_answer_that_cannot_be_sent_is_told_as_obeyed_but(answer: dict[str, Any]) -> None:
    class Talkative(Steered):
        def stats(self, include_tasks: bool, /) -> dict[str, Any]:
            return answer

    reply = Rig(worker=Talkative()).tell("stats")
    assert code_of(reply) == "reply-unsendable"
    assert reply.error is not None and reply.error.message.startswith("The command was obeyed, but")


def test_without_the_stores_clock_nothing_is_obeyed() -> None:
    rig = Rig()
    command = rig.command("shutdown")

    def gone() -> float:
        raise StoreUnavailable("The store is gone.")

    answering = iter([rig.clock])
    responder = Responder(rig.worker, namespace="ns", clock=lambda: next(answering, gone)())
    assert code_of(responder.answer(encode_command(command))) == "clock-unavailable"
    assert rig.worker.told == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from([name for entry in all_commands() for name in (entry.name, *entry.aliases)])


@given(st.binary(max_size=400))
def test_any_bytes_are_survived(raw: bytes) -> None:
    rig = Rig(OLD)
    rig.responder.answer(raw)
    assert rig.worker.told == []


@given(st.dictionaries(st.sampled_from([*msgspec.json.decode(encode_command(a_command(1e9))), "x"]), JSON))
def test_any_object_is_survived(fields: dict[str, Any]) -> None:
    rig = Rig()
    good = msgspec.json.decode(encode_command(rig.command()))
    for raw in (msgspec.json.encode(fields), msgspec.json.encode({**good, **fields})):
        reply = rig.responder.answer(raw)
        assert reply is None or msgspec.json.decode(msgspec.json.encode(reply))["workerId"] == "w1"


@given(
    NAMES, st.dictionaries(st.sampled_from(["taskIds", "records", "queues", "mode", "rate", "task", "filters"]), JSON)
)
def test_any_payload_is_survived(type: str, payload: dict[str, Any]) -> None:
    rig = Rig()
    reply = rig.responder.answer(msgspec.json.encode(rig.command(type, payload=payload)))
    assert reply is not None
    assert reply.status == "ok" or code_of(reply) == "invalid-payload"


@given(st.data())
def test_a_signed_command_with_any_byte_changed_has_no_effect(data: st.DataObject) -> None:
    rig = Rig(OLD)
    raw = encode_command(sign(rig.command("shutdown", payload={"mode": "warm"}), rig.keyring, namespace="ns"))
    at = data.draw(st.integers(0, len(raw) - 1))
    changed = raw[:at] + bytes([data.draw(st.integers(0, 255).filter(lambda b: b != raw[at]))]) + raw[at + 1 :]
    rig.responder.answer(changed)
    # Base64 has more than one spelling for some signatures; what was signed has none.
    assert rig.worker.told == [] or canonical(decode_command(changed)) == canonical(decode_command(raw))
