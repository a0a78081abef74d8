"""The log of everything that happened: in order, once each, resumable."""

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from conftest import OpenStore
from stem.contracts.events import MAX_NOTE_BYTES
from stem.contracts.schedules import ScheduleEntry, ScheduleState
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, Report
from stem.core.errors import UsageError
from stem.core.event import Event
from stem.core.lifecycle import ARROWS, NOTED_KINDS, EventKind
from stem.core.settings.app import Retention
from support.background import Errand, barrier, in_thread, is_waiting, takes_less_than, timed
from support.builders import BOOM, a_join, a_push, cancelled, dead, done, pushes, requeue, retry
from support.stores.calls import (
    WORKER,
    all_events,
    claim,
    claim_one,
    events_of,
    expire,
    fail_for_good,
    push_and_claim,
    record,
    state,
)
from support.stores.lifecycle_check import walk
from support.stores.process_targets import push_many


def test_a_fresh_log_is_empty(store: Store) -> None:
    assert store.events.head() is None
    assert store.events.read(None, limit=10) == []
    assert not store.events.wait(None, timeout_seconds=0)


def test_each_change_is_one_event_with_who_and_which_attempt(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a", name="demo.mul", queue="maths"))
    store.broker.start([delivery.lease], worker="w1")
    store.broker.settle([retry(delivery, 0.0)], worker="w2")
    again = claim_one(store, "maths")
    store.broker.report([Report(again.lease)], worker="w3")
    store.broker.settle([done(again)], worker="w3")
    told = [(str(e.kind), e.attempt, e.worker) for e in all_events(store)]
    assert told == [
        ("enqueued", 0, None),
        ("started", 0, "w1"),
        ("retried", 0, "w2"),
        ("started", 1, "w3"),
        ("heartbeat", 1, "w3"),
        ("succeeded", 1, "w3"),
    ]
    assert {(e.task_id, e.name, e.queue) for e in all_events(store)} == {("a", "demo.mul", "maths")}
    retried = all_events(store)[2]
    error = {"type": BOOM.type, "message": BOOM.message, "retryable": True}
    assert retried.data == {"delaySeconds": 0.0, "error": error}


def test_endings_carry_when_the_task_was_enqueued_and_started(store: Store) -> None:
    store.broker.push(pushes("a", "b", "c", "d"))
    deliveries = claim(store)
    store.broker.start([deliveries[0].lease], worker=WORKER)
    a, b, c, d = deliveries
    store.broker.settle([done(a), dead(b, ran=0.4), cancelled(c, ran=0.4), retry(d, 3600, ran=0.4)], worker=WORKER)
    endings = [e for e in all_events(store) if e.kind not in (EventKind.ENQUEUED, EventKind.STARTED)]
    assert [str(e.kind) for e in endings] == ["succeeded", "failed", "dead-lettered", "revoked", "retried"]
    for event in endings:
        began = next(e for e in events_of(store, event.task_id) if e.kind is EventKind.STARTED)
        assert event.started_at == began.at
        assert event.enqueued_at == record(store, event.task_id).enqueued_at
        assert event.started_at is not None and event.started_at <= event.at
    assert record(store, "a").finished_at == endings[0].at
    ran = endings[1].at - (endings[1].started_at or endings[1].at)
    assert abs(ran.total_seconds() - 0.4) < 0.01


def test_every_kind_of_event_is_logged_by_the_change_it_tells_of(store: Store) -> None:
    entry = ScheduleEntry(id="it", task="demo.add", spec="@daily")
    store.schedules.write(entry, ScheduleState(), revision=0, pushes=[a_push("a")])
    store.broker.push([a_push("gone", expires=0), a_push("purged", delay=3600)])
    a = claim_one(store)
    assert claim(store) == []
    store.broker.purge("default")
    store.broker.settle([requeue(a, throttled=True)], worker=WORKER)
    a = claim_one(store)
    store.broker.report([Report(a.lease, {"p": 1}), Report(a.lease)], worker=WORKER)
    store.broker.settle([requeue(a)], worker=WORKER)
    store.broker.settle([retry(claim_one(store))], worker=WORKER)
    expire(store, claim_one(store, lease=0.02))
    store.broker.settle([dead(claim_one(store))], worker=WORKER)
    store.deadletters.replay(DeadFilter())
    store.broker.push([a_push("after", after=["a"]), a_join("join", "a")])
    a = claim_one(store)
    store.steps.record(a.lease, "pay", msgspec.Raw(b"1"))
    store.broker.settle([done(a)], worker=WORKER)
    events = all_events(store)
    assert {event.kind for event in events} == set(ARROWS)
    assert walk(events_of(store, "a")) == "succeeded"
    assert [str(e.kind) for e in events_of(store, "gone")] == ["enqueued", "expired"]
    assert [(str(e.kind), e.data) for e in events_of(store, "purged")][1] == ("revoked", {"reason": "purged"})
    assert [str(e.kind) for e in events_of(store, "after")] == ["enqueued", "blocked", "released"]
    assert [str(e.kind) for e in events_of(store, "join")] == ["enqueued", "blocked", "joined"]
    for id in ("a", "gone", "purged", "after", "join"):
        assert walk(events_of(store, id)) == state(store, id)


def test_a_replayed_task_starts_anew_in_the_log(store: Store) -> None:
    fail_for_good(store, "a")
    store.deadletters.replay(DeadFilter())
    replayed = events_of(store, "a")[-1]
    assert (replayed.kind, replayed.attempt, replayed.worker) == (EventKind.REPLAYED, 0, None)
    assert replayed.started_at is None


def test_a_reader_resumes_without_gap_or_repeat(store: Store) -> None:
    store.broker.push([a_push(f"n{n}") for n in range(10)])
    whole = store.events.read(None, limit=100)
    assert [e.task_id for e in whole] == [f"n{n}" for n in range(10)]
    assert all_events(store, step=3) == whole
    for n, event in enumerate(whole):
        assert store.events.read(event.offset, limit=100) == whole[n + 1 :]
    head = store.events.head()
    assert head == whole[-1].offset
    assert store.events.read(head, limit=10) == []
    store.broker.push(pushes("later"))
    assert [e.task_id for e in store.events.read(head, limit=10)] == ["later"]


def test_a_reader_may_stop_between_the_events_of_one_ending(store: Store) -> None:
    store.broker.push(pushes("a", "b", "c"))
    first, second, third = claim(store, limit=3)
    store.broker.start([second.lease], worker=WORKER)
    store.broker.settle([done(first, ran=0.5), done(second), done(third, ran=0.25)], worker=WORKER)
    whole = store.events.read(None, limit=100)
    assert [f"{e.task_id} {e.kind}" for e in whole[3:]] == [
        "b started", "a started", "a succeeded", "b succeeded", "c started", "c succeeded",
    ]  # fmt: skip
    assert [e.at == e.started_at for e in whole[3:]] == [True, True, False, False, True, False]
    assert all_events(store, step=1) == whole
    for n, event in enumerate(whole):
        assert store.events.read(event.offset, limit=100) == whole[n + 1 :]


def test_two_readers_do_not_disturb_each_other(store: Store, open_store: OpenStore) -> None:
    store.broker.push(pushes("a", "b"))
    assert all_events(store) == all_events(open_store()) == all_events(store)


def test_wait_wakes_for_a_new_event_and_ends_on_time(store: Store, open_store: OpenStore) -> None:
    store.broker.push(pushes("a"))
    assert store.events.wait(None, timeout_seconds=20)
    head = store.events.head()

    def seconds_in_vain() -> float:
        began = time.monotonic()
        assert not store.events.wait(head, timeout_seconds=0.2)
        taken = time.monotonic() - began
        assert taken >= 0.19
        return taken

    takes_less_than(0.7, seconds_in_vain)
    other = open_store()
    takes_less_than(1.0, lambda: seconds_to_wake(store, lambda: other.broker.push([a_push()])))


def seconds_to_wake(store: Store, change: Callable[[], object]) -> float:
    """From the change until who waits for the next event is told."""
    head = store.events.head()
    waiter = in_thread(lambda: timed(lambda: store.events.wait(head, timeout_seconds=20)))
    assert is_waiting(waiter, seconds=0.1)
    sent = time.monotonic()
    change()
    found, at = waiter.result(30)
    assert found
    return at - sent


def test_a_follower_sees_each_event_once_while_threads_write(store: Store, open_store: OpenStore) -> None:
    writers = [open_store() for _ in range(3)]

    def write(n: int, each: Store) -> None:
        for step in range(40):
            each.broker.push(pushes(f"{n}-{step}-a", f"{n}-{step}-b"))

    running = [in_thread(partial(write, n, each)) for n, each in enumerate(writers)]
    seen: list[Event] = []
    after = None
    while len(seen) < 240:
        assert store.events.wait(after, timeout_seconds=20), f"stuck after {len(seen)} events"
        for event in store.events.read(after, limit=17):
            seen.append(event)
            after = event.offset
    for writer in running:
        writer.result(20)
    assert store.events.read(after, limit=10) == []
    assert len({event.task_id for event in seen}) == 240
    assert seen == all_events(store)
    for n in range(3):
        own = [event.task_id for event in seen if event.task_id.startswith(f"{n}-")]
        assert own == [f"{n}-{step}-{x}" for step in range(40) for x in "ab"]


def test_a_follower_sees_each_event_once_while_processes_write(
    durable_store: Store, durable_url: str, namespace: str
) -> None:
    gate = barrier(4)
    writers = [Errand(push_many, durable_url, namespace, f"w{n}", 50, gate) for n in range(3)]
    gate.wait(60)
    seen: list[str] = []
    after = None
    while len(seen) < 150:
        assert durable_store.events.wait(after, timeout_seconds=20), f"stuck after {len(seen)} events"
        for event in durable_store.events.read(after, limit=7):
            seen.append(event.task_id)
            after = event.offset
    for writer in writers:
        writer.result()
    assert durable_store.events.read(after, limit=10) == []
    assert sorted(seen) == sorted(f"w{n}-{k}" for n in range(3) for k in range(50))


def test_a_note_tells_of_a_worker_in_order_among_the_tasks(store: Store) -> None:
    before = store.upkeep.now()
    store.events.note(EventKind.WORKER_STARTED, worker="w1", data={"queues": ["a", "b"], "limits": {"memory": None}})
    delivery = push_and_claim(store, a_push("a"))
    store.events.note(EventKind.WORKER_SCALED, worker="w2", data={"from": 1, "to": 4, "share": 0.5, "why": "queue ☃"})
    store.broker.settle([done(delivery, ran=0.1)], worker="w1")
    store.events.note(EventKind.WORKER_STOPPED, worker="w1", data={})
    after = store.upkeep.now()
    told = [(str(e.kind), e.worker) for e in all_events(store)]
    assert told == [
        ("worker-started", "w1"),
        ("enqueued", None),
        ("worker-scaled", "w2"),
        ("started", "w1"),
        ("succeeded", "w1"),
        ("worker-stopped", "w1"),
    ]
    notes = events_of(store, "")
    assert [note.data for note in notes] == [
        {"queues": ["a", "b"], "limits": {"memory": None}},
        {"from": 1, "to": 4, "share": 0.5, "why": "queue ☃"},
        {},
    ]
    for note in notes:
        assert (note.task_id, note.name, note.queue, note.attempt, note.started_at) == ("", "", "", 0, None)
        assert note.enqueued_at == note.at
        assert before - 0.001 <= note.at.timestamp() <= after + 0.001
    assert all_events(store, step=1) == all_events(store)
    assert walk(events_of(store, "a")) == "succeeded"


def test_every_kind_of_a_worker_or_operator_can_be_noted_and_twice_is_two(store: Store) -> None:
    kinds = sorted(NOTED_KINDS) * 2
    for kind in kinds:
        store.events.note(kind, worker=WORKER, data={"kind": kind})
    assert [(e.kind, e.data) for e in all_events(store)] == [(kind, {"kind": kind.value}) for kind in kinds]


@pytest.mark.parametrize("kind", sorted(ARROWS))
def test_a_kind_that_belongs_to_tasks_cannot_be_noted(store: Store, kind: EventKind) -> None:
    with pytest.raises(UsageError, match=f"{kind} tells of a task"):
        store.events.note(kind, worker=WORKER, data={})
    assert store.events.head() is None


@pytest.mark.parametrize(
    "data",
    [{"of": object()}, {"of": math.nan}, {"of": "\ud800"}, {"of": "x" * (MAX_NOTE_BYTES - 8)}],
    ids=["an object", "no number", "half a character", "one byte too long"],
)
def test_a_note_that_cannot_be_kept_is_refused(store: Store, data: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        store.events.note(EventKind.WORKER_PAUSED, worker=WORKER, data=data)
    assert store.events.head() is None


def test_a_note_may_be_as_long_as_the_limit(store: Store) -> None:
    data = {"of": "x" * (MAX_NOTE_BYTES - 9)}
    store.events.note(EventKind.WORKER_PAUSED, worker=WORKER, data=data)
    assert [event.data for event in all_events(store)] == [data]


def test_a_note_is_kept_as_it_was_when_it_was_made(store: Store) -> None:
    queues = ["a"]
    store.events.note(EventKind.WORKER_PAUSED, worker=WORKER, data={"queues": queues})
    queues.append("b")
    assert [event.data for event in all_events(store)] == [{"queues": ["a"]}]


def test_a_note_wakes_who_waits_and_is_the_head(store: Store, open_store: OpenStore) -> None:
    store.broker.push(pushes("a"))
    head = store.events.head()
    note_it = partial(open_store().events.note, EventKind.WORKER_RESUMED, worker="w1", data={"queue": "default"})
    takes_less_than(1.0, lambda: seconds_to_wake(store, note_it))
    *_, note = store.events.read(head, limit=10)
    assert (note.kind, note.worker, note.data) == (EventKind.WORKER_RESUMED, "w1", {"queue": "default"})
    assert store.events.head() == note.offset != head
    assert not store.events.wait(note.offset, timeout_seconds=0)


def test_notes_count_among_the_events_that_are_kept(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(events_count=3))
    for n in range(5):
        store.events.note(EventKind.WORKER_SCALED, worker=WORKER, data={"to": n})
    store.broker.push(pushes("a"))
    while store.upkeep.prune():
        pass
    assert [(e.task_id, e.data) for e in all_events(store)] == [("", {"to": 3}), ("", {"to": 4}), ("a", {})]


def test_notes_of_two_namespaces_live_apart(open_store: OpenStore, namespace: str) -> None:
    here, there = open_store(), open_store(f"{namespace}-2")
    here.events.note(EventKind.WORKER_STARTED, worker="w", data={"of": "here"})
    assert there.events.head() is None
    assert not there.events.wait(None, timeout_seconds=0)
    there.events.note(EventKind.WORKER_STARTED, worker="w", data={"of": "there"})
    assert [[event.data["of"] for event in all_events(each)] for each in (here, there)] == [["here"], ["there"]]


def test_a_follower_sees_each_note_once_while_threads_note_and_push(store: Store, open_store: OpenStore) -> None:
    first, second, pusher = open_store(), open_store(), open_store()

    def note(each: Store, worker: str) -> None:
        for n in range(40):
            each.events.note(EventKind.WORKER_SCALED, worker=worker, data={"to": n})

    def push() -> None:
        for n in range(40):
            pusher.broker.push(pushes(f"t{n}"))

    running = [in_thread(partial(note, first, "w1")), in_thread(partial(note, second, "w2")), in_thread(push)]
    seen: list[Event] = []
    after = None
    while len(seen) < 120:
        assert store.events.wait(after, timeout_seconds=20), f"stuck after {len(seen)} events"
        for event in store.events.read(after, limit=7):
            seen.append(event)
            after = event.offset
    for writer in running:
        writer.result(20)
    assert store.events.read(after, limit=10) == []
    assert [e.task_id for e in seen if e.task_id] == [f"t{n}" for n in range(40)]
    for worker in ("w1", "w2"):
        assert [e.data["to"] for e in seen if e.worker == worker] == list(range(40))
