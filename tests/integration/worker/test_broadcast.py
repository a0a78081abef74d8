"""A broadcast runs once in every live worker; what a dead worker leaves waits for its name, or expires."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import url_of
from stem import BroadcastHandle, NoLiveWorkers, Route, Settings, State, Stem
from stem.contracts.store import Store
from stem.control.queue_states import queue_states
from stem.core.delivery import DeadFilter, Ending
from stem.core.errors import WaitTimeout
from stem.core.outcome import Dead
from stem.core.record import TaskError
from stem.worker.services.absent_workers import cancel_expired
from stem.worker.services.unserved_queues import warn_of_unserved
from stem.worker.supervisor import Worker
from support.until import until
from support.workers.fleet import Fleet, a_fleet

APP = "support.worker_apps.routed:app"


@pytest.fixture(params=["sqlite", "redis"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path, namespace: str) -> Iterator[Fleet]:
    yield from a_fleet(url_of(request.param, request, tmp_path), namespace, tmp_path)


@pytest.fixture
def client(fleet: Fleet) -> Iterator[Stem]:
    """Knows the routes and not the code."""
    settings = Settings(broker_url=fleet._url, namespace=fleet.store.namespace, timeout_seconds=30.0)
    with Stem(settings=settings, routes=[Route("cache.*", broadcast=True), Route("mail.*", queue="mail")]) as app:
        yield app


def broadcast(client: Stem, mark: str, **options: Any) -> BroadcastHandle:
    handle = client.enqueue("cache.clear", {"mark": mark}, check=False, **options)
    assert isinstance(handle, BroadcastHandle)
    return handle


def start_three(fleet: Fleet) -> None:
    fleet.ready(*(fleet.start(app_path=APP, name=f"w{n}", concurrency=1, is_awaited=False) for n in (1, 2, 3)))


def test_each_of_three_workers_runs_it_once(fleet: Fleet, client: Stem) -> None:
    start_three(fleet)
    pids = broadcast(client, "a").get(30)
    assert list(pids) == ["w1", "w2", "w3"] and len(set(pids.values())) == 3
    client.enqueue("mail.send", {"mark": "m"}, check=False).get(30)  # nobody claims another's copy meanwhile
    assert fleet.ledger.runs() == {"a/w1": 1, "a/w2": 1, "a/w3": 1, "m": 1}


def test_a_worker_that_was_killed_runs_its_copy_when_it_is_back_under_its_name(fleet: Fleet, client: Stem) -> None:
    start_three(fleet)
    fleet.workers[1].send_all(signal.SIGKILL)
    fleet.workers[1].process.wait()  # else it would still count as running
    handle = broadcast(client, "a")  # its heartbeat is still there
    others = {worker: each for worker, each in handle.handles.items() if worker != "w2"}
    assert all(each.get(30) for each in others.values())
    with pytest.raises(WaitTimeout):
        handle.wait(0.1)
    assert handle.status()["w2"].state is State.QUEUED
    fleet.start(app_path=APP, name="w2", concurrency=1)
    assert list(handle.get(30)) == ["w1", "w2", "w3"]
    assert fleet.ledger.runs() == {"a/w1": 1, "a/w2": 1, "a/w3": 1}


def test_a_task_can_broadcast(fleet: Fleet, client: Stem) -> None:
    start_three(fleet)
    ids = client.enqueue("spread", {"mark": "a"}, check=False).get(30)
    assert len(ids) == 3
    fleet.ended(ids)
    assert fleet.ledger.runs() == {"a/w1": 1, "a/w2": 1, "a/w3": 1}


def test_a_backlog_does_not_keep_a_broadcast_waiting(fleet: Fleet, client: Stem) -> None:
    fleet.start(app_path=APP, name="w1", concurrency=1, prefetch=0)
    nap = client.sender("nap", check=False)
    nap.enqueue_many({"seconds": 0.05} for _ in range(2000))
    until(lambda: fleet.depth().running)
    assert list(broadcast(client, "a").get(30)) == ["w1"]
    assert fleet.depth().ready > 1000


def test_a_worker_also_serves_the_queue_that_a_route_names(fleet: Fleet, client: Stem) -> None:
    worker = fleet.start(app_path=APP, name="w1")
    assert fleet.pulses()["w1"].queues == ["default", "declared", "mail"]
    sent = client.enqueue("mail.send", {"mark": "a"}, check=False)
    assert sent.get(30) == "a" and sent.status().queue == "mail"
    assert "worker.w1" not in worker.text


def test_pauses_and_lists_of_queues_leave_the_own_queue_out(fleet: Fleet, client: Stem) -> None:
    fleet.start(app_path=APP, name="w1")
    assert "worker.w1" not in [state.name for state in queue_states(fleet.store, fleet.store.revokes)]
    for queue in ("default", "declared", "mail"):
        client.control.pause(queue)
    (pong,) = client.control.ping().replies.values()
    assert pong.payload["state"] == "paused"
    assert list(broadcast(client, "a").get(30)) == ["w1"]
    client.control.pause("worker.w1")
    held = broadcast(client, "b")
    state = next(each for each in queue_states(fleet.store, fleet.store.revokes) if each.name == "worker.w1")
    assert (state.workers, state.remark, state.depth.ready) == (("w1",), "paused", 1)
    client.control.resume("worker.w1")
    held.get(30)
    assert fleet.ledger.runs() == {"a/w1": 1, "b/w1": 1}


def gone(store: Store, namespace: str, *, expires: float) -> BroadcastHandle:
    """Send a broadcast to a worker that is gone by now."""
    settings = Settings(broker_url=store.url, namespace=namespace)
    app = Stem(settings=settings, routes=[Route("cache.*", broadcast=True)])
    app.store_connection._store = store
    app.store_connection.eager_worker = "w9"
    handle = app.enqueue("cache.clear", check=False, expires=expires)
    assert isinstance(handle, BroadcastHandle)
    return handle


def test_a_copy_of_a_worker_that_does_not_come_back_expires(
    durable_store: Store, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    handle, other = (
        gone(durable_store, namespace, expires=0.05),
        gone(durable_store, namespace, expires=600),
    )
    warn_of_unserved(durable_store, ["default"])
    assert "queue.unserved" not in caplog.text

    def is_ended() -> bool:
        cancel_expired(durable_store)
        return handle.status()["w9"].is_terminal

    until(is_ended)
    record = handle.status()["w9"]
    assert record.state is State.CANCELLED and record.error is not None and "expired" in record.error.message
    assert other.status()["w9"].state is State.QUEUED
    (state,) = queue_states(durable_store, durable_store.revokes)
    assert (state.name, state.remark) == ("worker.w9", "its worker is not running")


def test_a_replayed_copy_does_not_expire(durable_store: Store, namespace: str) -> None:
    handle = gone(durable_store, namespace, expires=0.3)
    (delivery,) = durable_store.broker.claim(["worker.w9"], limit=1, lease_seconds=30)
    dead = Dead("failed", TaskError("ValueError", "no"))
    durable_store.broker.settle([Ending(delivery.lease, dead)], worker="w9")
    durable_store.deadletters.replay(DeadFilter(ids=(handle.ids[0],)))
    sent_at = handle.status()["w9"].enqueued_at.timestamp()
    until(lambda: durable_store.upkeep.now() > sent_at + 0.5)
    cancel_expired(durable_store)
    assert handle.status()["w9"].state is State.QUEUED


def test_a_worker_without_the_task_gets_no_copy(tmp_path: Path) -> None:
    app = Stem(f"sqlite:///{tmp_path}/stem.db", routes=[{"match": "*", "broadcast": True}])
    app.task(name="known")(_nothing)
    with app, Worker(app, in_process=True, name="w1"):
        until(lambda: app.store.heartbeats.all())
        assert app.enqueue("known").get(20) == {"w1": None}
        with pytest.raises(NoLiveWorkers, match="None of the 1 live workers has the broadcast unknown"):
            app.enqueue("unknown", check=False)


def _nothing() -> None: ...
