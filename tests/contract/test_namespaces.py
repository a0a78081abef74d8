"""Two namespaces on one server never meet."""

from conftest import OpenStore
from stem.core.delivery import DeadFilter
from stem.core.heartbeat import Heartbeat
from stem.core.record import TaskFilter
from stem.core.revoke import RevokeRequest
from support.background import in_thread, is_waiting
from support.builders import a_push, done, pushes
from support.stores.calls import WORKER, all_events, claim, claim_one, dead_ids, fail_for_good, ids, record
from support.until import until


def test_tasks_of_one_name_live_apart(open_store: OpenStore, namespace: str) -> None:
    here, there = open_store(), open_store(f"{namespace}-2")
    assert here.broker.push([a_push("a", args={"of": "here"}, unique="k"), a_push("b")])[0].created
    assert there.broker.push([a_push("a", args={"of": "there"}, unique="k")])[0].created
    assert ids(claim(there)) == ["a"]
    mine = claim_one(here)
    assert mine.envelope.arguments() == {"of": "here"}
    here.broker.settle([done(mine, "here")], worker=WORKER)
    assert record(there, "a").state == "queued"
    assert here.broker.depth()["default"].ready == 1
    assert there.broker.purge("default") == 0
    assert ids(there.results.page(TaskFilter(), limit=10).items) == ["a"]
    assert [e.task_id for e in all_events(there)] == ["a"]
    assert here.broker.push([a_push("c", unique="k")])[0].created
    assert there.broker.push([a_push("c", unique="k")])[0].id == "a"


def test_dead_letters_live_apart(open_store: OpenStore, namespace: str) -> None:
    here, there = open_store(), open_store(f"{namespace}-2")
    fail_for_good(here, "a")
    fail_for_good(there, "a", "b")
    assert here.deadletters.replay(DeadFilter()) == ["a"]
    assert dead_ids(there) == ["b", "a"]
    assert there.deadletters.purge(DeadFilter()) == 2
    assert ids(claim(here)) == ["a"]


def test_expired_leases_are_taken_back_in_their_own_namespace_only(open_store: OpenStore, namespace: str) -> None:
    here, there = open_store(), open_store(f"{namespace}-2")
    for store in (here, there):
        store.broker.push(pushes("a"))
        claim_one(store, lease=0.02)
    until(lambda: here.broker.reclaim().returned == ["a"])
    assert there.broker.depth(["default"])["default"].running == 1
    until(lambda: there.broker.reclaim().returned == ["a"])


def test_locks_marks_mail_and_heartbeats_live_apart(open_store: OpenStore, namespace: str) -> None:
    here, there = open_store(), open_store(f"{namespace}-2")
    assert here.locks.acquire("l", owner="x", ttl_seconds=60) is not None
    assert there.locks.owner("l") is None
    here.revokes.put([RevokeRequest(task_id="a", expires_seconds=0.0), RevokeRequest(task_id="a")])
    assert (there.revokes.get(["a"]), there.revokes.version(), there.revokes.since(0, limit=9)) == ({}, 0, [])
    here.mail.send("box", b"m", ttl_seconds=60)
    assert there.mail.receive("box", timeout_seconds=0) == []
    subscription = there.mail.subscribe("news")
    here.mail.publish("news", b"m", ttl_seconds=60)
    assert subscription.receive(timeout_seconds=0.1) == []
    subscription.close()
    beat = Heartbeat(
        worker_id="w", namespace="n", host="h", pid=1, uptime_seconds=1, concurrency=1, in_flight=0, queues=[]
    )
    here.heartbeats.beat(beat, ttl_seconds=60)
    assert there.heartbeats.all() == []
    assert not there.heartbeats.forget("w")


def test_a_push_elsewhere_brings_nothing_to_a_waiter_here(open_store: OpenStore, namespace: str) -> None:
    here, there = open_store(), open_store(f"{namespace}-2")
    waiter = in_thread(lambda: here.results.wait(["a"], timeout_seconds=30))
    there.broker.push(pushes("a"))
    there.broker.settle([done(claim_one(there))], worker=WORKER)
    assert is_waiting(waiter, seconds=0.2)
    here.broker.push(pushes("a"))
    here.broker.settle([done(claim_one(here), "mine")], worker=WORKER)
    assert waiter.result(30)["a"].result() == "mine"


def test_a_name_that_is_the_beginning_of_another_is_still_another(open_store: OpenStore, namespace: str) -> None:
    here, there = open_store(f"{namespace}.x"), open_store(f"{namespace}.x.y")
    here.broker.push([a_push("y.a", queue="q")])
    there.broker.push([a_push("a", queue="y.q")])
    assert there.results.get(["y.a"]) == {}
    assert claim(here, "y.q", "y:q") == []
    assert ids(claim(there, "y.q")) == ["a"]


def test_pruning_is_for_one_namespace(open_store: OpenStore, namespace: str) -> None:
    here, there = open_store(), open_store(f"{namespace}-2")
    there.broker.push(pushes("a"))
    there.broker.settle([done(claim_one(there), 1)], worker=WORKER)
    there.revokes.put([RevokeRequest(task_id="r", expires_seconds=0.0)])
    assert here.revokes.prune() == 0
    while here.upkeep.prune():
        pass
    assert record(there, "a").result() == 1
    until(lambda: there.revokes.prune() == 1)
