"""With keys set, only envelopes signed with one of them are run; signatures survive retry, requeue and replay."""

import base64
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from stem import Exponential, Stem
from stem.client.admit import Admitted, admit
from stem.core.delivery import DeadFilter, Delivery, Lease
from stem.core.outcome import Rejected
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
