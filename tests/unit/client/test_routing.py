"""A call's own options count before a route, and a route before what the task declares; a broadcast is one call per worker."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec
import pytest

from stem import (
    BroadcastHandle,
    InvalidArguments,
    NoLiveWorkers,
    Route,
    Settings,
    State,
    Stem,
    TaskContext,
    TaskFailed,
    WaitTimeout,
)
from stem.core.delivery import DeadFilter
from stem.core.envelope import Envelope, decode
from stem.core.heartbeat import Heartbeat
from stem.core.record import TaskFilter
from stem.testing import eager, run_pending
from stem.worker.fork.manifest import decode as decoded_manifest
from stem.worker.fork.manifest import encode, manifest

ROUTES = [
    Route("mail.urgent"),
    Route("mail.*", queue="mail", priority=7),
    Route("report.*", tenant="reports"),
    Route("cache.*", broadcast=True),
]
KEYS = "k1:hmac-sha256:" + "A" * 43 + "="
_numbers = count(1)


def an_app(**options: Any) -> Stem:
    app = Stem(settings=Settings(broker_url=f"memory://routing-{next(_numbers)}"), routes=ROUTES, **options)

    @app.task(name="mail.send", queue="declared", priority=2, aliases=["old.send"])
    def send(to: str = "") -> str:
        return to

    @app.task(name="mail.urgent", queue="urgent")
    def urgent() -> None: ...

    @app.task(name="report.make")
    def make(ctx: TaskContext) -> str | None:
        return ctx.tenant

    @app.task(name="cache.clear")
    def clear(part: str = "all") -> str:
        if part == "broken":
            raise ValueError(part)
        return part

    return app


@pytest.fixture
def app() -> Iterator[Stem]:
    with an_app() as opened:
        yield opened


def beat(app: Stem, *workers: str, **fields: Any) -> None:
    for worker in workers:
        given = {"host": "h", "pid": 1, "uptime_seconds": 1.0, "concurrency": 1, "in_flight": 0, "queues": ["default"]}
        beating = Heartbeat(worker_id=worker, namespace="stem", **{**given, **fields})
        app.store.heartbeats.beat(beating, ttl_seconds=30)


def waiting(app: Stem) -> list[Envelope]:
    broker = app.store.broker
    return [decode(each.body) for queue in sorted(broker.depth()) for each in broker.peek(queue, limit=100)]


def test_a_route_counts_before_what_the_task_declares(app: Stem) -> None:
    app.tasks["mail.send"].enqueue("ada")
    (sent,) = waiting(app)
    assert (sent.queue, sent.priority) == ("mail", 7)


def test_a_calls_own_options_count_before_the_route(app: Stem) -> None:
    app.tasks["mail.send"].options(queue="mine").enqueue("ada")
    app.enqueue("mail.send", {"to": "bob"}, priority=1)
    app.enqueue("mail.send", {"to": "eve"}, queue=None)  # which means not given
    found = {sent.arguments()["to"]: (sent.queue, sent.priority) for sent in waiting(app)}
    assert found == {"ada": ("mine", 7), "bob": ("mail", 1), "eve": ("mail", 7)}


def test_a_rule_without_options_exempts_its_tasks_from_later_ones(app: Stem) -> None:
    app.tasks["mail.urgent"].enqueue()
    assert [(sent.queue, sent.priority) for sent in waiting(app)] == [("urgent", 5)]


def test_every_way_to_enqueue_is_routed(app: Stem) -> None:
    send = app.tasks["mail.send"]
    send.enqueue("1")
    send.send({"to": "2"})
    send.enqueue_many([{"to": "3"}, send.item("4"), send.options(meta={"n": 5}).item("5")])
    send.options(meta={"n": 6}).enqueue_many([{"to": "6"}, send.options(id="seven").item("7")])
    app.enqueue("mail.send", {"to": "8"})
    app.enqueue("old.send", {"to": "9"})
    app.enqueue("mail.elsewhere", {"to": "10"}, check=False)
    asyncio.run(app.aenqueue("mail.send", {"to": "11"}))
    assert [sent.queue for sent in waiting(app)] == ["mail"] * 11


def test_a_running_task_enqueues_by_the_routes(app: Stem) -> None:
    @app.task(name="parent")
    def parent(ctx: TaskContext) -> list[str]:
        ctx.enqueue(app.tasks["mail.send"], "ada")
        ctx.enqueue("mail.send", {"to": "bob"}, queue="mine")
        ctx.enqueue("cache.clear", {"part": "all"})
        return []

    with eager(app):
        parent.enqueue().get()
        app.store.broker.purge("mail")
        records = app.store.results.page(TaskFilter(), limit=10).items
    assert sorted(record.queue for record in records) == ["default", "mail", "mine", "worker.stem-testing"]


def test_a_routed_tenant_is_the_header_that_the_task_sees(app: Stem) -> None:
    make = app.tasks["report.make"]
    with eager(app):
        assert make.enqueue().get() == "reports"
        assert make.options(headers={"trace": "7"}).enqueue().get() == "reports"
        assert make.options(headers={"tenant": "acme"}).enqueue().get() == "acme"


def test_fair_share_parts_the_routed_queue_by_the_routed_tenant() -> None:
    routes = [Route("mail.*", queue="mail", tenant="reports")]
    with Stem(f"memory://routing-{next(_numbers)}", fair_share=True, routes=routes) as app:
        app.enqueue("mail.send", check=False)
        app.enqueue("mail.send", check=False, queue="other", headers={"tenant": "acme"})
        assert list(app.store.broker.depth()) == ["mail:reports", "other:acme"]


def test_a_replay_stays_in_its_queue(app: Stem) -> None:
    with eager(app):
        handle = app.enqueue("mail.gone", check=False, queue="before")  # which nobody knows, so it is a dead letter
        assert handle.status().state is State.FAILED
        app.store.deadletters.replay(DeadFilter(ids=(handle.id,)))
        assert handle.status().queue == "before"


def test_a_unique_call_is_told_by_the_routed_queue(app: Stem) -> None:
    send = app.tasks["mail.send"].options(unique="until_done")
    first = send.enqueue("ada")
    assert send.enqueue("ada").id == first.id
    assert send.options(queue="mine").enqueue("ada").id != first.id


def test_a_worker_serves_the_queues_with_their_routes_and_without(app: Stem) -> None:
    told = decoded_manifest(encode(manifest(app)))
    assert told.queues == ["default", "declared", "mail", "urgent"]
    assert {task.name: task.queue for task in told.tasks}["mail.send"] == "mail"
    assert told.settings.routes == tuple(ROUTES)


def test_a_broadcast_is_stored_once_for_each_live_worker(app: Stem) -> None:
    beat(app, "w1", "w2")
    beat(app, "beat-1", extras={"kind": "scheduler"})
    beat(app, "w3", extras={"state": "draining"})
    beat(app, "w4", extras={"tasks": {"other": ["default", 3]}})
    handle = app.tasks["cache.clear"].enqueue("users")
    assert isinstance(handle, BroadcastHandle)
    assert [(sent.queue, sent.id) for sent in waiting(app)] == list(
        zip(["worker.w1", "worker.w2"], handle.ids, strict=True)
    )
    assert {sent.meta["broadcast"] for sent in waiting(app)} == {handle.id}
    assert list(handle.handles) == ["w1", "w2"] and handle.created


def test_waiting_for_a_broadcast_gives_the_value_of_each_worker(app: Stem) -> None:
    beat(app, "w1", "w2")
    handle = app.tasks["cache.clear"].enqueue("users")
    assert isinstance(handle, BroadcastHandle)
    with pytest.raises(WaitTimeout):
        handle.get(0.01)
    assert {record.state for record in handle.status().values()} == {State.QUEUED}
    assert run_pending(app) == 2
    assert handle.get(5) == {"w1": "users", "w2": "users"}
    assert asyncio.run(handle.aget(5)) == {"w1": "users", "w2": "users"}
    assert {record.state for record in handle.wait(5).values()} == {State.SUCCEEDED}


def test_a_copy_that_failed_raises_for_all_and_the_records_tell_them_apart(app: Stem) -> None:
    beat(app, "w1", "w2")
    handle = app.tasks["cache.clear"].options(max_retries=0).enqueue("broken")
    run_pending(app, limit=1)
    app.store.broker.purge("worker.w2")
    with pytest.raises(TaskFailed, match="ValueError: broken"):
        handle.get(5)
    assert isinstance(handle, BroadcastHandle)
    assert {worker: record.state for worker, record in handle.wait(5).items()} == {
        "w1": State.FAILED,
        "w2": State.CANCELLED,
    }


def test_without_a_live_worker_a_broadcast_is_refused_and_nothing_is_written(app: Stem) -> None:
    for _ in range(2):
        with pytest.raises(
            NoLiveWorkers, match=r"No live worker is there to run the broadcast cache.clear.*stem worker"
        ):
            app.tasks["cache.clear"].enqueue()
        beat(app, "beat-1", extras={"kind": "scheduler"})
    beat(app, "w1", extras={"tasks": {"other": ["default", 3]}})
    with pytest.raises(NoLiveWorkers, match="None of the 1 live workers has the broadcast"):
        app.tasks["cache.clear"].enqueue_many([{}])
    assert app.store.broker.depth() == {}


def test_arguments_of_a_broadcast_are_checked_before_anything_is_written(app: Stem) -> None:
    beat(app, "w1")
    with pytest.raises(InvalidArguments):
        app.enqueue("cache.clear", {"part": 7})
    assert app.store.broker.depth() == {}


def test_workers_of_another_namespace_get_no_copy(app: Stem) -> None:
    beat(app, "w1")
    pulse = msgspec.structs.replace(app.store.heartbeats.all()[0].heartbeat, worker_id="w2", namespace="other")
    app.store.heartbeats.beat(pulse, ttl_seconds=30)
    assert len(app.tasks["cache.clear"].compose({})) == 1


def test_a_broadcast_with_an_id_can_be_repeated(app: Stem) -> None:
    beat(app, "w1")
    clear = app.tasks["cache.clear"].options(id="deploy-7")
    assert clear.enqueue().created
    beat(app, "w2")
    again = clear.enqueue()
    assert isinstance(again, BroadcastHandle)
    assert (again.id, again.ids) == ("deploy-7", ["deploy-7.w1", "deploy-7.w2"])
    assert [handle.created for handle in again.handles.values()] == [False, True]
    assert len(waiting(app)) == 2


def test_a_unique_broadcast_waits_once_at_each_worker(app: Stem) -> None:
    beat(app, "w1", "w2")
    clear = app.tasks["cache.clear"].options(unique="until_done")
    first, second = clear.enqueue(), clear.enqueue()
    assert isinstance(first, BroadcastHandle) and isinstance(second, BroadcastHandle)
    assert first.ids == second.ids and not second.created


def test_a_copy_expires_an_hour_after_it_is_due_unless_the_call_says_otherwise(app: Stem) -> None:
    beat(app, "w1")
    clear, then = app.tasks["cache.clear"], datetime(2100, 1, 1, tzinfo=UTC)

    def seconds(**options: Any) -> tuple[float | None, datetime | None]:
        (push,) = clear.options(**options).compose({})
        is_relative = push.expires_seconds is not None
        return push.expires_seconds, None if is_relative else push.envelope.expires_at

    assert seconds() == (3600.0, None)
    assert seconds(delay=60) == (3660.0, None)
    assert seconds(not_before=then) == (None, then + timedelta(hours=1))
    assert seconds(expires="5m") == (300.0, None)
    assert seconds(expires=then) == (None, then)


def test_a_queue_of_the_call_makes_a_broadcast_an_ordinary_call(app: Stem) -> None:
    handle = app.tasks["cache.clear"].options(queue="default").enqueue()
    assert not isinstance(handle, BroadcastHandle)
    assert [sent.queue for sent in waiting(app)] == ["default"]


def test_a_broadcast_has_one_queue_per_worker_with_fair_share() -> None:
    routes = [Route("cache.*", broadcast=True, tenant="acme")]
    with Stem(f"memory://routing-{next(_numbers)}", fair_share=True, routes=routes) as app:
        beat(app, "w1")
        app.enqueue("cache.clear", check=False)
        (sent,) = waiting(app)
        assert (sent.queue, sent.headers["tenant"]) == ("worker.w1", "acme")


def test_copies_are_signed_for_their_queues() -> None:
    with an_app(signing_keys=KEYS) as app:
        beat(app, "w1", "w2")
        handle = app.enqueue("cache.clear")
        run_pending(app)
        assert handle.get(5) == {"w1": "all", "w2": "all"}


def test_many_broadcasts_are_counted_by_their_copies(app: Stem) -> None:
    beat(app, "w1", "w2")
    clear = app.tasks["cache.clear"]
    bulk = clear.enqueue_many([{"part": "a"}, clear.item("b"), clear.options(queue="default").item("c")], chunk=1)
    assert (bulk.created, bulk.existing) == (5, 0)
    with pytest.raises(InvalidArguments, match=r"^Item 2, with 2 stored before its chunk"):
        clear.enqueue_many([{"part": "a"}, {"part": 7}], chunk=1)


def test_a_broadcast_is_sent_from_coroutines(app: Stem) -> None:
    beat(app, "w1")
    handle = asyncio.run(app.aenqueue("cache.clear"))
    run_pending(app)
    assert isinstance(handle, BroadcastHandle) and asyncio.run(handle.astatus())["w1"].state is State.SUCCEEDED


def test_revoking_a_broadcast_revokes_all_copies(app: Stem) -> None:
    beat(app, "w1", "w2", extras={"commands": []})
    handle = app.tasks["cache.clear"].enqueue()
    app.store.heartbeats.forget("w1")
    app.store.heartbeats.forget("w2")
    handle.revoke()
    assert isinstance(handle, BroadcastHandle)
    assert {record.state for record in handle.status().values()} == {State.CANCELLED}


def test_eager_runs_a_broadcast_once(app: Stem) -> None:
    with eager(app):
        assert app.tasks["cache.clear"].enqueue().get() == {"stem-testing": "all"}
    with pytest.raises(NoLiveWorkers):
        app.tasks["cache.clear"].enqueue()
