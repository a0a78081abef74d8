"""The one writer of endings: record, acknowledgement, meta, events and follow-ups, whole or not at all."""

from collections.abc import Callable
from datetime import datetime

import msgspec
import pytest

from stem.contracts.store import Store
from stem.core.delivery import Ending, Report
from stem.core.errors import UsageError
from stem.core.lifecycle import EventKind, State
from stem.core.outcome import Requeue
from stem.core.record import TaskError
from support.builders import BOOM, a_push, cancelled, dead, done, pushes, requeue, retry
from support.stores.calls import (
    WORKER,
    all_events,
    claim,
    claim_one,
    dead_ids,
    depth,
    events_of,
    expire,
    ids,
    kinds_of,
    push_and_claim,
    record,
    state,
)
from support.stores.snapshot import without_moments
from support.until import until

Ends = Callable[..., Ending]


def test_done_succeeds_with_its_payload(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    assert store.broker.settle([done(delivery, {"total": [1, 2.5, None, "ü"]}, ran=0.5)], worker=WORKER) == []
    ended = record(store, "a")
    assert (ended.state, ended.result(), ended.error) == (State.SUCCEEDED, {"total": [1, 2.5, None, "ü"]}, None)
    assert ended.worker == WORKER
    assert ended.finished_at is not None and ended.started_at is not None
    assert (ended.finished_at - ended.started_at).total_seconds() == pytest.approx(0.5, abs=0.01)
    assert ended.updated_at == ended.finished_at


def test_a_result_clears_the_error_of_the_attempt_before(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    store.broker.settle([retry(delivery)], worker=WORKER)
    assert record(store, "a").error == BOOM
    store.broker.settle([done(claim_one(store), 1)], worker=WORKER)
    ended = record(store, "a")
    assert (ended.state, ended.error, ended.result(), ended.attempt) == (State.SUCCEEDED, None, 1, 1)


def test_a_retry_spends_an_attempt_and_comes_back_after_its_delay(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    now = store.upkeep.now()
    store.broker.settle([retry(delivery, 0.3)], worker=WORKER)
    waiting = record(store, "a")
    assert (waiting.state, waiting.attempt, waiting.error) == (State.RETRIED, 1, BOOM)
    assert (waiting.worker, waiting.started_at, waiting.finished_at, waiting.payload) == (None,) * 4
    again = until(lambda: claim(store))[0]
    assert store.upkeep.now() >= now + 0.3
    assert (again.attempt, again.envelope.attempt) == (1, 1)
    assert kinds_of(store, "a") == [EventKind.ENQUEUED, EventKind.STARTED, EventKind.RETRIED]
    assert events_of(store, "a")[-1].attempt == 0


def test_dead_fails_and_leaves_a_letter(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a", args={"x": 1}))
    store.broker.settle([dead(delivery, "not-retryable", note={"why": [1]})], worker=WORKER)
    ended = record(store, "a")
    assert (ended.state, ended.error, ended.payload) == (State.FAILED, BOOM, None)
    letter = store.deadletters.get("a")
    assert letter is not None
    assert (letter.reason, letter.meta, letter.error) == ("not-retryable", {"why": [1]}, BOOM)
    assert letter.envelope == delivery.envelope
    kinds = [EventKind.ENQUEUED, EventKind.STARTED, EventKind.FAILED, EventKind.DEAD_LETTERED]
    assert kinds_of(store, "a") == kinds


def test_a_requeue_spends_nothing_and_keeps_the_place(store: Store) -> None:
    store.broker.push(pushes("a", "b"))
    delivery = claim_one(store)
    store.broker.start([delivery.lease], worker=WORKER)
    store.broker.settle([requeue(delivery)], worker=WORKER)
    waiting = record(store, "a")
    assert (waiting.state, waiting.attempt, waiting.worker, waiting.started_at) == (State.QUEUED, 0, None, None)
    assert ids(claim(store)) == ["a", "b"]


def test_a_requeued_second_attempt_reads_retried(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    store.broker.settle([retry(delivery)], worker=WORKER)
    again = claim_one(store)
    store.broker.start([again.lease], worker=WORKER)
    assert state(store, "a") is State.RUNNING
    store.broker.settle([requeue(again, died=True)], worker=WORKER)
    waiting = record(store, "a")
    assert (waiting.state, waiting.attempt, waiting.error) == (State.RETRIED, 1, BOOM)
    third = claim_one(store)
    assert (third.attempt, third.deaths) == (1, 1)


def test_a_throttled_requeue_waits_and_says_so(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    store.broker.settle([requeue(delivery, 3600, reason="10/min", throttled=True)], worker=WORKER)
    assert claim(store) == []
    assert (depth(store).ready, depth(store).delayed) == (0, 1)
    assert kinds_of(store, "a") == [EventKind.ENQUEUED, EventKind.THROTTLED]
    assert events_of(store, "a")[-1].data == {"delaySeconds": 3600.0, "reason": "10/min"}


def test_a_death_is_counted_and_the_attempt_is_not_spent(store: Store) -> None:
    store.broker.push(pushes("a"))
    for deaths in range(3):
        delivery = claim_one(store)
        assert (delivery.deaths, delivery.attempt) == (deaths, 0)
        store.broker.settle([requeue(delivery, died=True, ran=0.1)], worker=WORKER)


def test_cancelled_ends_with_its_reason(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    store.broker.settle([cancelled(delivery, "not needed")], worker=WORKER)
    ended = record(store, "a")
    assert (ended.state, ended.error) == (State.CANCELLED, TaskError("Cancelled", "not needed"))
    assert kinds_of(store, "a") == [EventKind.ENQUEUED, EventKind.REVOKED]
    assert dead_ids(store) == []


def test_start_is_recorded_once(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    assert store.broker.start([delivery.lease], worker=WORKER) == []
    first = record(store, "a")
    assert (first.state, first.worker) == (State.RUNNING, WORKER)
    assert first.started_at is not None
    assert store.broker.start([delivery.lease, delivery.lease], worker=WORKER) == []
    assert record(store, "a").started_at == first.started_at
    store.broker.settle([done(delivery, ran=9.0)], worker=WORKER)
    assert kinds_of(store, "a") == [EventKind.ENQUEUED, EventKind.STARTED, EventKind.SUCCEEDED]
    assert record(store, "a").started_at == first.started_at


def test_a_start_is_dated_back_by_how_long_ago_it_was(store: Store) -> None:
    store.broker.push(pushes("a", "b", "c"))
    a, b, c = claim(store)
    before = store.upkeep.now()
    leases = [c.lease, a.lease, b.lease, c.lease]
    assert store.broker.start(leases, worker=WORKER, ago_seconds=[30.0, 0.0, -60.0, 5.0]) == []
    after = store.upkeep.now()
    for id, ago in (("a", 0.0), ("b", 0.0), ("c", 30.0)):
        started = record(store, id)
        (event,) = (each for each in events_of(store, id) if each.kind is EventKind.STARTED)
        assert event.at == event.started_at == started.started_at
        assert before - ago - 0.001 <= event.at.timestamp() <= after - ago + 0.001
        assert started.updated_at.timestamp() >= before - 0.001  # it is known only now
    told = [each for each in all_events(store) if each.kind is EventKind.STARTED]
    assert [each.task_id for each in told] == ["c", "a", "b"]

    began = record(store, "c").started_at
    store.broker.start([c.lease], worker=WORKER, ago_seconds=[90.0])
    store.broker.settle([done(c, ran=60.0)], worker=WORKER)
    ended = record(store, "c")
    assert (ended.started_at, kinds_of(store, "c").count(EventKind.STARTED)) == (began, 1)
    assert all_events(store)[-1].started_at == began
    assert ended.finished_at is not None
    assert ended.finished_at.timestamp() >= before - 0.001


def test_each_lease_has_its_own_start_or_none_has(store: Store) -> None:
    store.broker.push(pushes("a", "b"))
    a, b = claim(store)
    for ago in ([1.0], [1.0, 2.0, 3.0]):
        with pytest.raises(UsageError, match="one for each lease"):
            store.broker.start([a.lease, b.lease], worker=WORKER, ago_seconds=ago)
    assert (state(store, "a"), kinds_of(store, "a")) == (State.QUEUED, [EventKind.ENQUEUED])


def test_a_report_that_starts_an_attempt_is_not_dated_back_but_the_start_is(store: Store) -> None:
    store.broker.push(pushes("a", "b"))
    a, b = claim(store)
    before = store.upkeep.now()
    reports = [Report(a.lease, {"n": 1}, 20.0), Report(b.lease, None, -20.0), Report(a.lease, {"n": 2}, 40.0)]
    assert store.broker.report(reports, worker=WORKER) == []
    after = store.upkeep.now()
    assert store.broker.report([Report(a.lease, None, 50.0)], worker=WORKER) == []  # its start is known
    for id, ago in (("a", 20.0), ("b", 0.0)):
        _, first, *others = events_of(store, id)
        assert first.kind is EventKind.STARTED
        assert before - ago - 0.001 <= first.at.timestamp() <= after - ago + 0.001
        assert {first.at} == {first.started_at, record(store, id).started_at, *(each.started_at for each in others)}
        assert all(each.at.timestamp() >= before - 0.001 for each in others)
        assert (record(store, id).heartbeat_at or first.at).timestamp() >= before - 0.001
    assert kinds_of(store, "a").count(EventKind.STARTED) == 1


def test_an_unstarted_attempt_that_never_ran_logs_no_start(store: Store) -> None:
    store.broker.push(pushes("a", "b"))
    a, b = claim(store)
    store.broker.settle([requeue(a, 3600), dead(b, "unknown-task", ran=None)], worker=WORKER)
    assert kinds_of(store, "a") == [EventKind.ENQUEUED, EventKind.REQUEUED]
    assert kinds_of(store, "b") == [EventKind.ENQUEUED, EventKind.FAILED, EventKind.DEAD_LETTERED]
    assert record(store, "b").started_at is None


def test_meta_is_merged_key_by_key(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a", meta={"kept": 1, "deep": {"old": True}}))
    store.broker.settle([retry(delivery, meta={"deep": {"new": True}, "host": "h1"})], worker=WORKER)
    assert record(store, "a").meta == {"kept": 1, "deep": {"new": True}, "host": "h1"}
    store.broker.settle([done(claim_one(store), meta={"host": "h2"})], worker=WORKER)
    assert record(store, "a").meta == {"kept": 1, "deep": {"new": True}, "host": "h2"}


def test_a_report_keeps_the_latest_progress_and_starts_the_attempt(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a", meta={"mine": 1}))
    assert store.broker.report([Report(delivery.lease, {"percent": 10, "note": "x"})], worker=WORKER) == []
    running = record(store, "a")
    assert (running.state, running.worker) == (State.RUNNING, WORKER)
    assert without_moments(running.meta) == {"mine": 1, "progress": {"percent": 10, "note": "x"}}
    assert running.heartbeat_at is not None
    assert datetime.fromisoformat(running.meta["heartbeatAt"]) == running.heartbeat_at
    assert store.broker.report([Report(delivery.lease, {"percent": 20}), Report(delivery.lease)], worker=WORKER) == []
    assert without_moments(record(store, "a").meta) == {"mine": 1, "progress": {"percent": 20}}
    assert kinds_of(store, "a") == [
        EventKind.ENQUEUED,
        EventKind.STARTED,
        EventKind.PROGRESS,
        EventKind.PROGRESS,
        EventKind.HEARTBEAT,
    ]
    assert events_of(store, "a")[2].data == {"percent": 10, "note": "x"}


@pytest.mark.parametrize("ending", [done, retry, dead, requeue, cancelled])
def test_follow_ups_are_pushed_with_the_settle(store: Store, ending: type) -> None:
    delivery = push_and_claim(store, a_push("a"))
    then = [a_push("next", queue="second"), a_push("later", queue="second", delay=3600), a_push("a", queue="second")]
    store.broker.settle([ending(delivery, then=then)], worker=WORKER)
    assert ids(claim(store, "second")) == ["next"]
    assert (depth(store, "second").running, depth(store, "second").delayed) == (1, 1)
    order = [(event.task_id, event.kind) for event in all_events(store)][-2:]
    assert order == [("next", EventKind.ENQUEUED), ("later", EventKind.ENQUEUED)]


def test_follow_ups_of_a_refused_settle_are_not_pushed(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"), lease=0.05)
    expire(store, delivery)
    assert store.broker.settle([done(delivery, then=pushes("next"))], worker=WORKER) == [delivery.lease]
    assert store.results.get(["next"]) == {}


def test_a_follow_up_may_take_over_the_unique_key_that_its_parent_releases(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a", unique="k"))
    store.broker.settle([done(delivery, then=[a_push("b", unique="k"), a_push("c", unique="k")])], worker=WORKER)
    assert ids(claim(store)) == ["b"]
    assert store.broker.push([a_push("d", unique="k")])[0].id == "b"


def test_all_five_settlements_go_in_one_batch(store: Store) -> None:
    store.broker.push(pushes("a", "b", "c", "d", "e"))
    a, b, c, d, e = claim(store)
    endings = [done(a, 1), retry(b, 3600), dead(c), requeue(d), cancelled(e)]
    assert store.broker.settle(endings, worker=WORKER) == []
    states = [record(store, id).state for id in "abcde"]
    assert states == [State.SUCCEEDED, State.RETRIED, State.FAILED, State.QUEUED, State.CANCELLED]
    tail = [(event.task_id, str(event.kind)) for event in all_events(store)][5:]
    assert tail == [
        ("a", "started"),
        ("a", "succeeded"),
        ("b", "started"),
        ("b", "retried"),
        ("c", "started"),
        ("c", "failed"),
        ("c", "dead-lettered"),
        ("d", "requeued"),
        ("e", "revoked"),
    ]


@pytest.mark.parametrize("ends", [done, retry, dead, requeue, cancelled])
def test_facts_of_the_call_are_in_the_events_of_its_ending(store: Store, ends: Ends) -> None:
    facts = {"tenant": "acme", "dueAt": "2026-01-02T03:04:05Z"}
    ending = msgspec.structs.replace(ends(push_and_claim(store, a_push("a"))), facts=facts)
    plain = done(push_and_claim(store, a_push("b")))
    assert store.broker.settle([ending, plain], worker=WORKER) == []
    told = [event for event in events_of(store, "a") if event.kind not in (EventKind.ENQUEUED, EventKind.STARTED)]
    assert told and all(event.data.items() >= facts.items() for event in told)
    assert state(store, "b") is State.SUCCEEDED and not any("tenant" in event.data for event in events_of(store, "b"))


def test_the_last_limit_that_a_task_ran_into_is_what_its_record_names(store: Store) -> None:
    store.broker.push([a_push("a", meta={"mine": 1})])
    for count in range(5):
        note = {"throttled": {"limit": "rate-limit demo", "retryAfterSeconds": count}}
        settlement = Requeue(0.0, "rate-limit demo", throttled=True)
        assert store.broker.settle([Ending(claim_one(store).lease, settlement, None, note)], worker=WORKER) == []
    waiting = record(store, "a")
    assert (waiting.state, waiting.meta) == (State.QUEUED, {"mine": 1, **note})
