"""What is sent comes back as it was, whatever is in it."""

import msgspec

from stem.contracts.store import Store
from stem.core.delivery import Ending, Report
from stem.core.outcome import Done
from stem.core.record import TaskError
from support.builders import a_push, dead, done, retry
from support.stores.calls import WORKER, claim_one, events_of, push_and_claim, record
from support.stores.snapshot import without_moments

ODD = "ü ☃ 🐌 \U0010ffff \u2028 \x01 \x7f \" \\ ' %s %(x)s {0} $1 :name \r\n\t"


def test_unicode_survives_everywhere(store: Store) -> None:
    sent = a_push("a", args={ODD: [ODD]}, headers={"h": ODD}, meta={ODD: {"deep": ODD}})
    delivery = push_and_claim(store, sent)
    assert delivery.envelope == sent.envelope
    store.broker.report([Report(delivery.lease, {ODD: ODD})], worker=f"w {ODD}")
    assert without_moments(record(store, "a").meta) == {ODD: {"deep": ODD}, "progress": {ODD: ODD}}
    assert record(store, "a").worker == f"w {ODD}"
    error = TaskError(ODD, ODD, ODD, retryable=True)
    store.broker.settle([retry(delivery, error=error, meta={ODD: 1})], worker=WORKER)
    assert record(store, "a").error == error
    store.broker.settle([dead(claim_one(store), ODD, error=error, note={ODD: ODD})], worker=WORKER)
    letter = store.deadletters.get("a")
    assert letter is not None
    assert (letter.reason, letter.error, letter.meta) == (ODD, error, {ODD: ODD})
    assert letter.envelope.arguments() == {ODD: [ODD]}
    told = events_of(store, "a")[-1]
    assert told.data["reason"] == ODD and told.data["error"]["message"] == ODD


def test_a_body_of_a_mebibyte_survives(store: Store) -> None:
    big = "x" * (1024 * 1024 - 100)
    delivery = push_and_claim(store, a_push("a", args={"big": big}))
    assert delivery.envelope.arguments() == {"big": big}
    store.broker.settle([done(delivery, big)], worker=WORKER)
    assert record(store, "a").result() == big


def test_nul_survives_in_payloads_errors_and_meta(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    error = TaskError("E", "a\x00b", "stack\x00", retryable=True)
    store.broker.report([Report(delivery.lease, {"p": "a\x00b"})], worker=WORKER)
    store.broker.settle([retry(delivery, error=error, meta={"m": "a\x00b"})], worker=WORKER)
    waiting = record(store, "a")
    assert waiting.error == error
    assert without_moments(waiting.meta) == {"m": "a\x00b", "progress": {"p": "a\x00b"}}
    store.broker.settle([dead(claim_one(store), error=error, note={"n": "\x00"})], worker=WORKER)
    letter = store.deadletters.get("a")
    assert letter is not None and (letter.error, letter.meta) == (error, {"n": "\x00"})
    second = push_and_claim(store, a_push("b"))
    store.broker.settle([done(second, {"k\x00": ["a\x00b"]})], worker=WORKER)
    assert record(store, "b").result() == {"k\x00": ["a\x00b"]}


def test_numbers_keep_every_digit(store: Store) -> None:
    digits = b"[123456789012345678901234567890,0.1,1e308,-0.0,9007199254740993]"
    delivery = push_and_claim(store, a_push("a", meta={"n": 9007199254740993, "f": 0.1, "big": 2**63}))
    store.broker.settle([Ending(delivery.lease, Done(msgspec.Raw(digits)), 0.0)], worker=WORKER)
    ended = record(store, "a")
    assert ended.payload is not None and bytes(ended.payload) == digits
    assert ended.meta == {"n": 9007199254740993, "f": 0.1, "big": 2**63}


def test_empty_things_stay_what_they_are(store: Store) -> None:
    meta: dict[str, object] = {"list": [], "dict": {}, "null": None, "text": "", "no": False, "nested": [[], {}, [{}]]}
    delivery = push_and_claim(store, a_push("a", meta=meta))
    assert delivery.envelope.meta == meta
    store.broker.report([Report(delivery.lease, {"list": [], "dict": {}})], worker=WORKER)
    store.broker.settle([done(delivery, {"list": [], "dict": {}}, meta={"more": []})], worker=WORKER)
    ended = record(store, "a")
    assert without_moments(ended.meta) == {**meta, "more": [], "progress": {"list": [], "dict": {}}}
    assert ended.result() == {"list": [], "dict": {}}
    assert next(e for e in events_of(store, "a") if e.kind == "progress").data == {"list": [], "dict": {}}


def test_a_payload_of_null_is_a_payload(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    store.broker.settle([done(delivery, None)], worker=WORKER)
    payload = record(store, "a").payload
    assert payload is not None and bytes(payload) == b"null"


def test_long_ids_and_queues_with_every_allowed_character(store: Store) -> None:
    id, queue = "A.z_0:9-" * 16, "q.z_0:9-" * 16
    delivery = push_and_claim(store, a_push(id, queue=queue, unique="k" * 64))
    assert (delivery.lease.id, delivery.queue) == (id, queue)
    store.broker.settle([done(delivery)], worker=WORKER)
    assert record(store, id).queue == queue
