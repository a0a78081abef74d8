"""With keys set, only envelopes signed with one of them are run; signatures survive retry, requeue and replay."""

import base64
import logging
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from stem import Exponential, Stem
from stem.backends.memory.state import MemoryState
from stem.backends.memory.tasks.broker import MemoryBroker
from stem.client.run.admit import Admitted, admit
from stem.core.delivery import TWO_PRIORITIES, DeadFilter, Delivery, Lease
from stem.core.envelope import signed_bytes
from stem.core.outcome import Rejected
from stem.core.settings.app import Settings
from stem.testing import run_pending


def hmac_key(key_id: str, letter: bytes = b"k") -> str:
    return f"{key_id}:hmac-sha256:{base64.b64encode(letter * 32).decode()}"


def signed_app(name: str, keys: str) -> Stem:
    app = Stem(f"memory://signing-{name}", signing_keys=keys, max_retries=1, retry=0)

    @app.task(name="work")
    def work(a: int = 1) -> int:
        if a < 0:
            raise ValueError(a)
        return a

    return app


def claimed(app: Stem) -> Delivery:
    return app.store.broker.claim(["default"], limit=1, lease_seconds=60)[0]


@pytest.fixture
def app() -> Stem:
    return signed_app(uuid4().hex, hmac_key("a"))


def test_a_signed_call_is_admitted_with_everything_it_may_carry(app: Stem) -> None:
    app.tasks["work"].options(
        delay=0, expires=60, headers={"traceparent": "x"}, meta={"n": [1, 2.5, 10**18]}, retry=Exponential(1, 2), soft_limit=1,
        hard_limit=2, visibility_timeout=30,
    ).enqueue(5)  # fmt: skip
    assert isinstance(admit(app, claimed(app)), Admitted)


CHANGES: list[dict[str, Any]] = [
    {"args": {"a": 2}},
    {"name": "other"},
    {"queue": "other"},
    {"priority": 9},
    {"maxRetries": 100},
    {"meta": {"tenant": "b"}},
    {"headers": {}},
    {"hardLimit": 1000.0},
    {"id": "another"},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_changed_envelope_is_rejected(app: Stem, change: dict[str, Any]) -> None:
    app.tasks["work"].options(headers={"x": "y"}).enqueue(1)
    delivery = claimed(app)
    forged = msgspec.structs.replace(delivery, body=msgspec.json.encode(msgspec.json.decode(delivery.body) | change))
    rejected = admit(app, forged)
    assert isinstance(rejected, Rejected)
    assert rejected.reason == "signature-invalid"


def test_a_signed_envelope_cannot_be_stored_again_under_another_id(app: Stem) -> None:
    app.tasks["work"].enqueue(1)
    rejected = admit(app, msgspec.structs.replace(claimed(app), lease=Lease("copy", 1)))
    assert isinstance(rejected, Rejected)
    assert "was signed for task" in rejected.error.message


def refusal(app: Stem, delivery: Delivery) -> str:
    rejected = admit(app, delivery)
    assert isinstance(rejected, Rejected) and rejected.reason == "signature-invalid"
    return rejected.error.message


def with_signature(delivery: Delivery, change: Callable[[str], str]) -> Delivery:
    body = msgspec.json.decode(delivery.body)
    body["headers"]["stem-signature"] = change(body["headers"]["stem-signature"])
    return msgspec.structs.replace(delivery, body=msgspec.json.encode(body))


def test_a_call_signed_in_one_namespace_does_not_run_in_another(app: Stem) -> None:
    app.tasks["work"].enqueue(1)
    other = Stem(app.settings.broker_url, signing_keys=hmac_key("a"), namespace="other")
    assert "does not match" in refusal(other, claimed(app))


def test_a_call_signed_by_the_previous_version_runs_and_warns_once(
    app: Stem, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stem.client.send.signing._warned", set())
    for _ in range(3):
        app.tasks["work"].enqueue(1)
        delivery = claimed(app)
        old = app.store_connection.keyring.sign(signed_bytes(delivery.envelope))[1]
        with caplog.at_level(logging.WARNING, "stem.signing"):
            assert isinstance(admit(app, with_signature(delivery, lambda _, old=old: old)), Admitted)  # type: ignore[misc]
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["signature.outdated"]


def test_a_signature_cannot_be_made_one_of_another_form(app: Stem) -> None:
    app.tasks["work"].enqueue(1)
    delivery = claimed(app)
    assert "does not match" in refusal(app, with_signature(delivery, lambda text: text.removeprefix("2:")))
    assert "'3', which this Stem does not know" in refusal(app, with_signature(delivery, lambda text: "3" + text[1:]))


@pytest.mark.parametrize("column", ["queue", "name"])
def test_columns_beside_the_envelope_must_match_what_was_signed(app: Stem, column: str) -> None:
    app.tasks["work"].enqueue(1)
    moved = msgspec.structs.replace(claimed(app), **{column: "another"})
    assert f"stored with the {column} 'another' and was signed for" in refusal(app, moved)


def test_a_priority_beside_the_envelope_must_match_what_was_signed(app: Stem) -> None:
    app.tasks["work"].options(priority=3).enqueue(1)
    (task,) = state_of(app).tasks.values()
    task.priority = 9
    delivery = claimed(app)
    assert "stored with the priority 9 and was signed for 3" in refusal(app, delivery)
    mixed = msgspec.structs.replace(delivery, priority=TWO_PRIORITIES)
    assert "where its priority does not put it; it was signed for 3" in refusal(app, mixed)
    assert isinstance(admit(app, msgspec.structs.replace(delivery, priority=3)), Admitted)
    assert isinstance(admit(app, msgspec.structs.replace(delivery, priority=None)), Admitted), "it waited nowhere"


def test_without_keys_a_changed_priority_only_changes_the_order() -> None:
    app = Stem(f"memory://signing-{uuid4().hex}")
    app.task(name="work")(lambda: 1)
    app.enqueue("work", priority=3)
    (task,) = state_of(app).tasks.values()
    task.priority = 9
    assert isinstance(admit(app, claimed(app)), Admitted)


def state_of(app: Stem) -> MemoryState:
    """As somebody sees it who can write to the store."""
    broker = app.store.broker
    assert isinstance(broker, MemoryBroker)
    return broker._state


def test_a_task_that_comes_well_before_its_time_is_refused(app: Stem) -> None:
    app.tasks["work"].options(delay=3600).enqueue(1)
    (waiting,) = app.store.broker.peek("default", limit=1)
    early = Delivery(Lease(waiting.id, 1), waiting.name, waiting.queue, 0, 0, waiting.body)
    assert "came earlier" in refusal(app, early)
    now = time.time()
    app.store_connection.clock = lambda: now + 3600
    assert isinstance(admit(app, early), Admitted)
    app.store_connection.clock = lambda: now + 3600 - 200
    assert isinstance(admit(app, early), Admitted), "clocks may be a little apart"


def test_a_signature_may_be_given_a_greatest_age_counted_from_when_the_task_was_due() -> None:
    settings = Settings(signing_keys=hmac_key("a"), signature_max_age_seconds=60.0)
    app = Stem("memory://signing-age", settings=settings)
    task = app.task(name="work")(lambda: None)
    task.enqueue()
    delivery, now = claimed(app), time.time()
    assert isinstance(admit(app, delivery), Admitted)
    app.store_connection.clock = lambda: now + 61
    assert "61 s old and the limit is 60 s" in refusal(app, delivery)
    app.store_connection.clock = lambda: now
    task.options(delay=100).enqueue()
    (waiting,) = app.store.broker.peek("default", limit=1)
    later = Delivery(Lease(waiting.id, 1), waiting.name, waiting.queue, 0, 0, waiting.body)
    app.store_connection.clock = lambda: now + 150
    assert isinstance(admit(app, later), Admitted)


def test_an_unsigned_call_is_parked_and_can_be_looked_at(app: Stem) -> None:
    stranger = Stem(app.settings.broker_url)
    handle = stranger.enqueue("work", check=False)
    run_pending(app)
    letter = app.store.deadletters.get(handle.id)
    assert letter is not None
    assert letter.reason == "signature-invalid"
    assert letter.error is not None and "is not signed" in letter.error.message


def test_a_signature_outlives_retry_and_replay(app: Stem) -> None:
    handle = app.tasks["work"].enqueue(-1)
    assert run_pending(app) == 2
    letter = app.store.deadletters.get(handle.id)
    assert letter is not None and letter.reason == "retries-exhausted"
    app.store.deadletters.replay(DeadFilter(ids=(handle.id,)))
    assert isinstance(admit(app, claimed(app)), Admitted)


def test_keys_are_rotated_by_overlap() -> None:
    """Readers learn the new key, senders change over, the old key goes: nothing is rejected on the way."""
    old, new = hmac_key("old", b"o"), hmac_key("new", b"n")
    stages = [signed_app("rotation", keys) for keys in (old, f"{old},{new}", f"{new},{old}", new)]
    for sender, reader in [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 1), (2, 3), (3, 3)]:
        stages[sender].tasks["work"].enqueue(1)
        assert isinstance(admit(stages[reader], claimed(stages[reader])), Admitted), (sender, reader)
    stages[0].tasks["work"].enqueue(1)
    assert isinstance(admit(stages[3], claimed(stages[3])), Rejected)


def test_a_sender_that_can_only_verify_writes_nothing() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = Ed25519PrivateKey.from_private_bytes(b"e" * 32).public_key().public_bytes_raw()
    reader = signed_app("reader", f"a:ed25519-public:{base64.b64encode(public).decode()}")
    with pytest.raises(Exception, match="can sign"):
        reader.tasks["work"].enqueue(1)
    assert reader.store.broker.depth() == {}
    sender = signed_app("reader", f"a:ed25519:{base64.b64encode(b'e' * 32).decode()}")
    sender.tasks["work"].enqueue(1)
    assert isinstance(admit(reader, claimed(reader)), Admitted)
