"""What is known of a task, and waiting for its end."""

import time
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

import msgspec
import pytest

from conftest import OpenStore
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter
from stem.core.lifecycle import TERMINAL, State
from stem.core.record import Page, TaskFilter, TaskRecord, moment
from stem.core.settings.app import Retention
from support.background import Errand, barrier, in_thread, is_waiting, takes_less_than, timed
from support.builders import BOOM, a_push, cancelled, dead, done, pushes, retry
from support.stores.calls import (
    WORKER,
    claim,
    claim_one,
    expire,
    fail_for_good,
    ids,
    let_time_pass,
    push_and_claim,
    record,
)
from support.stores.process_targets import read_one, settle_when_told

NOW = float(int(time.time()))


def a_record(
    id: str = "a", state: State = State.QUEUED, *, attempt: int = 0, fence: int = 1, **more: object
) -> TaskRecord:
    now = moment(NOW + 0.25)
    finished_at = now if state in TERMINAL else None
    fields = {
        "id": id, "name": "demo.add", "queue": "default", "state": state, "attempt": attempt, "fence": fence,
        "priority": 5, "enqueued_at": now, "updated_at": now, "finished_at": finished_at, **more,
    }  # fmt: skip
    return TaskRecord(**fields)  # type: ignore[arg-type]


def test_unknown_ids_are_not_in_the_answer(store: Store) -> None:
    store.broker.push(pushes("a"))
    assert store.results.get(["a", "nobody"]).keys() == {"a"}
    assert store.results.get([]) == {}


def test_wait_returns_what_has_ended_at_once(store: Store) -> None:
    store.broker.push(pushes("a", "b", "c"))
    a, b, _ = claim(store)
    store.broker.settle([done(a, 1), dead(b)], worker=WORKER)
    ended = store.results.wait(["a", "b", "c", "nobody"], timeout_seconds=20)
    assert ended.keys() == {"a", "b"}
    assert ended["a"].result() == 1


def test_wait_ends_on_time(store: Store) -> None:
    store.broker.push(pushes("a"))

    def seconds_in_vain(timeout: float) -> float:
        began = time.monotonic()
        assert store.results.wait(["a", "nobody"], timeout_seconds=timeout) == {}
        taken = time.monotonic() - began
        assert taken >= timeout - 0.01
        return taken

    for timeout in (0.0, 0.3):
        takes_less_than(timeout + 0.5, partial(seconds_in_vain, timeout))


@pytest.mark.parametrize("ending", [done, dead, cancelled])
def test_wait_wakes_when_the_task_ends(store: Store, open_store: OpenStore, ending: type) -> None:
    other = open_store()

    def seconds_to_wake() -> float:
        delivery = push_and_claim(store)
        id = delivery.lease.id
        waiter = in_thread(lambda: timed(lambda: store.results.wait(["x", id], timeout_seconds=20)))
        assert is_waiting(waiter)
        sent = time.monotonic()
        other.broker.settle([ending(delivery)], worker=WORKER)
        ended, at = waiter.result(30)
        assert ended.keys() == {id} and ended[id].is_terminal
        return at - sent

    takes_less_than(0.5, seconds_to_wake)


def test_wait_sleeps_through_a_retry(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a"))
    waiter = in_thread(lambda: store.results.wait(["a"], timeout_seconds=20))
    store.broker.settle([retry(delivery)], worker=WORKER)
    assert is_waiting(waiter)
    store.broker.settle([done(claim_one(store), 2)], worker=WORKER)
    assert waiter.result(20)["a"].result() == 2


def test_wait_wakes_for_expiry_and_purge(store: Store) -> None:
    store.broker.push([a_push("a", expires=0), a_push("b", delay=3600)])
    waiters = {id: in_thread(partial(store.results.wait, [id], timeout_seconds=20)) for id in "ab"}
    assert is_waiting(waiters["a"], seconds=0.1)
    assert claim(store) == []
    assert waiters["a"].result(20)["a"].state is State.CANCELLED
    store.broker.purge("default")
    assert waiters["b"].result(20)["b"].state is State.CANCELLED


def test_an_unknown_task_is_waited_for_like_any_other(store: Store) -> None:
    waiter = in_thread(lambda: store.results.wait(["a"], timeout_seconds=20))
    assert is_waiting(waiter, seconds=0.1)
    store.broker.settle([done(push_and_claim(store, a_push("a")), "came")], worker=WORKER)
    assert waiter.result(20)["a"].result() == "came"


def test_many_waiters_each_get_their_own(store: Store) -> None:
    store.broker.push([a_push(f"n{n}") for n in range(8)])
    deliveries = claim(store)
    waiters = [in_thread(partial(store.results.wait, [f"n{n}"], timeout_seconds=20)) for n in range(8)]
    assert is_waiting(waiters[0])
    for n in reversed(range(8)):
        store.broker.settle([done(deliveries[n], n)], worker=WORKER)
        assert waiters[n].result(20)[f"n{n}"].result() == n


def test_wait_wakes_across_processes(durable_store: Store, durable_url: str, namespace: str) -> None:
    names = (f"a{number}" for number in count(1))

    def seconds_to_wake() -> float:
        durable_store.broker.push(pushes(id := next(names)))
        gate = barrier(2)
        child = Errand(settle_when_told, durable_url, namespace, id, gate)
        waiter = in_thread(lambda: (durable_store.results.wait([id], timeout_seconds=60), time.time()))
        gate.wait(60)
        ended, at = waiter.result(60)
        assert ended[id].result() == "from afar"
        return at - child.result()

    takes_less_than(0.5, seconds_to_wake)
    assert Errand(read_one, durable_url, namespace, "a1").result() == "succeeded"


def test_records_are_listed_newest_first_and_paged_without_repeats(store: Store) -> None:
    store.broker.push([a_push(f"n{n}") for n in range(7)])
    seen, cursor, pages = [], None, 0
    while True:
        page = store.results.page(TaskFilter(), limit=3, cursor=cursor)
        seen += ids(page.items)
        pages += 1
        store.broker.push(pushes(f"new-{pages}"))
        store.broker.settle([done(claim_one(store))], worker=WORKER)
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == [f"n{n}" for n in reversed(range(7))]
    assert pages == 3


def test_a_page_that_is_just_full_is_the_last(store: Store) -> None:
    store.broker.push(pushes("a", "b", "c"))
    page = store.results.page(TaskFilter(), limit=3)
    assert (ids(page.items), page.cursor) == (["c", "b", "a"], None)


def test_records_are_found_by_state_queue_name_and_time(store: Store) -> None:
    store.broker.push(
        [a_push("a"), a_push("b", queue="mail"), a_push("c", name="demo.mul"), a_push("d", queue="mail", delay=3600)]
    )
    store.broker.settle([done(claim_one(store, "mail"))], worker=WORKER)

    def found(**where: object) -> list[str]:
        return ids(store.results.page(TaskFilter(**where), limit=100).items)  # type: ignore[arg-type]

    assert found() == ["d", "c", "b", "a"]
    assert found(state=State.QUEUED) == ["d", "c", "a"]
    assert found(state=State.SUCCEEDED) == ["b"]
    assert found(queue="mail") == ["d", "b"]
    assert found(name="demo.mul") == ["c"]
    assert found(queue="mail", state=State.SUCCEEDED) == ["b"]
    assert found(state=State.FAILED) == []
    at = record(store, "a").enqueued_at
    assert found(since=at) == ["d", "c", "b", "a"]
    assert found(until=at) == []
    assert found(since=at + timedelta(hours=1)) == []
    assert found(until=at + timedelta(hours=1)) == ["d", "c", "b", "a"]


def test_filtered_pages_show_each_record_once(store: Store) -> None:
    store.broker.push([a_push(f"{queue}{n}", queue=queue) for n in range(5) for queue in ("x", "y")])
    first = store.results.page(TaskFilter(queue="x"), limit=2)
    second = store.results.page(TaskFilter(queue="x"), limit=2, cursor=first.cursor)
    third = store.results.page(TaskFilter(queue="x"), limit=2, cursor=second.cursor)
    assert ids([*first.items, *second.items, *third.items]) == ["x4", "x3", "x2", "x1", "x0"]
    assert third.cursor is None


def test_a_saved_record_is_read_back_whole(store: Store) -> None:
    saved = a_record(
        state=State.FAILED, attempt=2, fence=7, error=BOOM, meta={"k": {"deep": [1, "ü"]}}, worker="w",
        started_at=moment(NOW + 0.5), finished_at=moment(NOW + 1.5), heartbeat_at=moment(NOW + 1.0),
    )  # fmt: skip
    store.results.save([saved])
    noted = {**saved.meta, "heartbeatAt": msgspec.to_builtins(saved.heartbeat_at)}
    assert record(store, "a") == msgspec.structs.replace(saved, meta=noted)
    won = a_record("b", State.SUCCEEDED, fence=1, payload=msgspec.Raw(b'{"x":[1,2]}'))
    store.results.save([won])
    assert record(store, "b").result() == {"x": [1, 2]}
    assert store.events.head() is None
    assert store.broker.depth() == {}
    assert claim(store) == []


@pytest.mark.parametrize(
    ("here", "offered", "is_kept"),
    [
        ((1, 0, State.RUNNING), (1, 0, State.SUCCEEDED), True),
        ((1, 0, State.SUCCEEDED), (1, 0, State.RUNNING), False),
        ((1, 0, State.SUCCEEDED), (1, 0, State.QUEUED), False),
        ((1, 0, State.RUNNING), (1, 1, State.RETRIED), True),
        ((1, 1, State.RETRIED), (1, 0, State.RUNNING), False),
        ((1, 0, State.SUCCEEDED), (2, 0, State.QUEUED), True),
        ((2, 0, State.QUEUED), (1, 3, State.SUCCEEDED), False),
        ((1, 2, State.RUNNING), (1, 2, State.FAILED), True),
        ((1, 2, State.FAILED), (1, 2, State.SUCCEEDED), True),
    ],
)
def test_a_saved_record_gives_way_only_to_a_later_one(
    store: Store, here: tuple[int, int, State], offered: tuple[int, int, State], is_kept: bool
) -> None:
    for fence, attempt, state in (here, offered):
        store.results.save([a_record("a", state, attempt=attempt, fence=fence)])
    expected = offered if is_kept else here
    found = record(store, "a")
    assert (found.fence, found.attempt, found.state) == expected


def test_a_saved_result_clears_the_error_of_the_attempt_before(store: Store) -> None:
    store.results.save([a_record("a", State.RETRIED, attempt=1, fence=1, error=BOOM)])
    store.results.save([a_record("a", State.SUCCEEDED, attempt=1, fence=2, payload=msgspec.Raw(b"1"))])
    found = record(store, "a")
    assert (found.error, found.result()) == (None, 1)


def test_saving_wakes_waiters_and_lists(store: Store, open_store: OpenStore) -> None:
    waiter = in_thread(lambda: store.results.wait(["b"], timeout_seconds=20))
    assert is_waiting(waiter, seconds=0.1)
    open_store().results.save([a_record("a"), a_record("b", State.SUCCEEDED), a_record("c", State.RUNNING)])
    assert waiter.result(20).keys() == {"b"}
    assert ids(store.results.page(TaskFilter(), limit=10).items) == ["c", "b", "a"]
    assert ids(store.results.page(TaskFilter(state=State.RUNNING), limit=10).items) == ["c"]


def test_a_lost_attempts_result_is_never_seen(store: Store) -> None:
    old = push_and_claim(store, a_push("a"), lease=0.05)
    expire(store, old)
    store.broker.settle([done(old, "late")], worker="old")
    assert store.results.wait(["a"], timeout_seconds=0) == {}
    assert record(store, "a").payload is None


def test_a_page_of_nothing_is_empty_and_the_last(store: Store) -> None:
    fail_for_good(store, "a", "b")
    for limit in (0, -1):
        assert store.results.page(TaskFilter(), limit=limit) == Page([], None)
        assert store.deadletters.page(DeadFilter(), limit=limit) == Page([], None)


def test_an_outlived_record_cannot_be_read_though_nobody_has_swept_it(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(results_seconds=0.05))
    store.broker.push(pushes("ended", "dead", "waiting"))
    first, second = claim(store, limit=2)
    store.broker.settle([done(first), dead(second)], worker=WORKER)
    let_time_pass(store, 0.06)
    assert sorted(store.results.get(["ended", "dead", "waiting"])) == ["dead", "waiting"]
    assert sorted(ids(store.results.page(TaskFilter(), limit=9).items)) == ["dead", "waiting"]
    assert store.results.wait(["ended"], timeout_seconds=0.01) == {}


def test_records_are_found_by_their_meta(store: Store) -> None:
    store.broker.push(
        [
            a_push("a", meta={"customer": "acme", "order": 7, "deep": {"x": [1]}}),
            a_push("b", meta={"customer": "acme", "order": "7"}),
            a_push("c", meta={"customer": 'o"hara\\', "urgent": True}),
            a_push("d"),
        ]
    )
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"customer": "acme"}, ["b", "a"]),
        ({"customer": "acme", "order": 7}, ["a"]),
        ({"order": "7"}, ["b"]),
        ({"customer": 'o"hara\\'}, ["c"]),
        ({"urgent": True}, ["c"]),
        ({"urgent": 1}, []),
        ({"nobody": "knows"}, []),
        ({"customer": None}, []),
        ({}, ["d", "c", "b", "a"]),
    ]
    for wanted, found in cases:
        assert ids(store.results.page(TaskFilter(meta=wanted), limit=9).items) == found, wanted


def test_a_filter_by_meta_sees_the_latest_notes_of_a_worker(store: Store) -> None:
    delivery = push_and_claim(store, a_push("a", meta={"host": "h0", "kept": 1}))
    store.broker.settle([retry(delivery, meta={"host": "h1"})], worker=WORKER)
    store.broker.settle([done(claim_one(store), meta={"host": "h2"})], worker=WORKER)
    assert ids(store.results.page(TaskFilter(meta={"host": "h2", "kept": 1}), limit=9).items) == ["a"]
    assert ids(store.results.page(TaskFilter(meta={"host": "h1"}), limit=9).items) == []
