"""What was run and given up elsewhere is stored as dead letters, once, and replayed like any other."""

from functools import partial

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.delivery import DeadCall, DeadFilter
from stem.core.lifecycle import EventKind, State
from stem.core.outcome import Dead
from support.background import together
from support.builders import BOOM, a_push, an_envelope, done
from support.stores.calls import WORKER, all_events, claim, claim_one, dead_ids, depth, events_of, kinds_of, record

EXHAUSTED = Dead("retries-exhausted", BOOM, {"maxRetries": 2})


def dead_call(id: str, *, attempt: int = 2, ran: float | None = 1.5, **envelope: object) -> DeadCall:
    return DeadCall(an_envelope(id, **envelope), EXHAUSTED, attempt, ran)  # type: ignore[arg-type]


def test_a_call_given_up_elsewhere_is_a_dead_letter_with_all_its_events(store: Store) -> None:
    sent = dead_call("a", args={"x": 1}, queue="mail", meta={"bulk": "b1"}, expires_at=None)
    (receipt,) = store.broker.insert_dead([sent], worker=WORKER)
    assert (receipt.id, receipt.created) == ("a", True)
    letter, told = store.deadletters.get("a"), record(store, "a")
    assert letter is not None
    assert (letter.queue, letter.attempt, letter.reason, letter.error) == ("mail", 2, "retries-exhausted", BOOM)
    assert (letter.meta, letter.envelope.arguments()) == ({"maxRetries": 2}, {"x": 1})
    assert (told.state, told.attempt, told.error, told.worker, told.meta) == (
        State.FAILED,
        2,
        BOOM,
        WORKER,
        {"bulk": "b1"},
    )
    assert told.started_at is not None and told.finished_at is not None
    assert abs((told.finished_at - told.started_at).total_seconds() - 1.5) < 0.001
    assert kinds_of(store, "a") == [
        EventKind.ENQUEUED,
        EventKind.STARTED,
        EventKind.FAILED,
        EventKind.DEAD_LETTERED,
    ]
    ending = events_of(store, "a")[2]
    assert (ending.attempt, ending.worker, ending.started_at) == (2, WORKER, told.started_at)


def test_nobody_can_claim_it_before_it_is_replayed(store: Store) -> None:
    store.broker.insert_dead([dead_call("a"), dead_call("b", ran=None)], worker=WORKER)
    assert claim(store) == []
    assert (depth(store).ready, depth(store).dead) == (0, 2)
    assert EventKind.STARTED not in kinds_of(store, "b")
    assert store.deadletters.replay(DeadFilter(ids=("a",))) == ["a"]
    again = claim_one(store)
    assert (again.lease.id, again.attempt, again.deaths) == ("a", 0, 0)
    store.broker.settle([done(again, "at last")], worker=WORKER)
    assert (record(store, "a").state, dead_ids(store)) == (State.SUCCEEDED, ["b"])


def test_a_known_id_is_left_alone_whatever_became_of_it(store: Store) -> None:
    store.broker.push([a_push("waits")])
    store.broker.insert_dead([dead_call("fell")], worker=WORKER)
    receipts = store.broker.insert_dead([dead_call(id) for id in ("waits", "fell", "new", "new")], worker=WORKER)
    assert [(each.id, each.created) for each in receipts] == [
        ("waits", False),
        ("fell", False),
        ("new", True),
        ("new", False),
    ]
    assert dead_ids(store) == ["new", "fell"]
    assert claim_one(store).lease.id == "waits"


def test_a_large_envelope_comes_back_whole(store: Store) -> None:
    store.broker.insert_dead([dead_call("a", args={"text": "x" * 5000}), dead_call("b")], worker=WORKER)
    letter = store.deadletters.get("a")
    assert letter is not None and letter.envelope.arguments() == {"text": "x" * 5000}
    store.deadletters.replay(DeadFilter(ids=("a",)))
    assert claim_one(store).envelope.arguments() == {"text": "x" * 5000}


def test_many_who_bury_the_same_store_it_once(store: Store, open_store: OpenStore) -> None:
    batch = [dead_call(f"n{n}") for n in range(40)]
    stores = [open_store() for _ in range(4)]
    answers = together([partial(each.broker.insert_dead, batch, worker=WORKER) for each in stores])
    assert sum(receipt.created for answer in answers for receipt in answer) == 40
    assert len(dead_ids(store)) == 40
    assert len([event for event in all_events(store) if event.kind is EventKind.DEAD_LETTERED]) == 40
