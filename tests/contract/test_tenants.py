"""All events of one task name the tenant of its call."""

from collections.abc import Callable

import pytest

from conftest import OpenStore
from stem.contracts.staging import Calls, Part, UniformBodies, calls_of
from stem.contracts.store import Store
from stem.core.delivery import DeadCall, DeadFilter, Ending, Report
from stem.core.envelope import Push
from stem.core.lifecycle import EventKind
from stem.core.outcome import Dead
from stem.core.record import TaskError
from support.builders import a_push, cancelled, dead, done, requeue, retry
from support.stores.calls import WORKER, claim, claim_one, events_of, expire

ACME = {"tenant": "acme/ä"}
LARGE = {"text": "x" * 5000}  # Redis keeps such an envelope beside its task


def tenants_of(store: Store, task_id: str) -> set[object]:
    told = [each for each in events_of(store, task_id) if each.kind not in (EventKind.HEARTBEAT, EventKind.PROGRESS)]
    assert told
    return {each.data.get("tenant") for each in told}


@pytest.fixture(params=["small", "large"])
def call(request: pytest.FixtureRequest) -> Callable[..., Push]:
    args = LARGE if request.param == "large" else {"tenant": "not this one"}
    return lambda id, **more: a_push(id, args=args, headers=ACME, **more)


def test_pushed_started_and_ended(store: Store, call: Callable[..., Push]) -> None:
    store.broker.push([call("a"), a_push("b", args={"tenant": "no header"}), call("c", unique="k")])
    for delivery in claim(store):
        store.broker.start([delivery.lease], worker=WORKER)
        facts = {} if delivery.lease.id == "b" else ACME
        store.broker.settle([Ending(delivery.lease, done(delivery).settlement, 0.1, facts=facts)], worker=WORKER)
    assert [tenants_of(store, id) for id in "abc"] == [{ACME["tenant"]}, {None}, {ACME["tenant"]}]


@pytest.mark.parametrize("ending", [done, retry, requeue, dead, cancelled])
def test_started_by_its_ending(store: Store, call: Callable[..., Push], ending: Callable[..., Ending]) -> None:
    store.broker.push([call("a")])
    plain = ending(claim_one(store))
    facts = ACME if ending is done else {}  # most endings by other parts of a worker say nothing of the call
    store.broker.settle([Ending(plain.lease, plain.settlement, 0.1, facts=facts)], worker=WORKER)
    assert EventKind.STARTED in [each.kind for each in events_of(store, "a")]
    assert tenants_of(store, "a") == {ACME["tenant"]}


def test_reported(store: Store, call: Callable[..., Push]) -> None:
    store.broker.push([call("a")])
    lease = claim_one(store).lease
    store.broker.report([Report(lease, {"done": 1}), Report(lease)], worker=WORKER)
    assert tenants_of(store, "a") == {ACME["tenant"]}
    (progress,) = [each.data for each in events_of(store, "a") if each.kind is EventKind.PROGRESS]
    assert progress == {"done": 1}, "what a task reports stays its own"


def test_ended_by_the_store(store: Store, call: Callable[..., Push]) -> None:
    store.broker.push([call("expired", expires=0.0), call("cancelled", queue="other"), call("purged", queue="third")])
    assert claim(store) == []
    store.broker.cancel(["cancelled"])
    store.broker.purge("third")
    for id in ("expired", "cancelled", "purged"):
        assert tenants_of(store, id) == {ACME["tenant"]}


def test_reclaimed_given_up_and_replayed(store: Store, call: Callable[..., Push]) -> None:
    store.broker.push([call("a")])
    expire(store, claim_one(store, lease=0.05))
    delivery = claim_one(store, lease=0.05)
    store.broker.start([delivery.lease], worker=WORKER)
    while not store.broker.reclaim(max_deaths=1).dead:
        pass
    assert store.deadletters.replay(DeadFilter()) == ["a"]
    kinds = {each.kind for each in events_of(store, "a")}
    assert {EventKind.REQUEUED, EventKind.DEAD_LETTERED, EventKind.REPLAYED} <= kinds
    assert tenants_of(store, "a") == {ACME["tenant"]}


def test_given_up_elsewhere(store: Store, call: Callable[..., Push]) -> None:
    dead_call = DeadCall(call("a").envelope, Dead("gone", TaskError("Gone", "for good")), 1, 0.1)
    assert store.broker.insert_dead([dead_call], worker=WORKER)[0].created
    assert tenants_of(store, "a") == {ACME["tenant"]}


def test_staged(open_store: OpenStore, call: Callable[..., Push]) -> None:
    store = open_store()
    mixed = [call("a"), a_push("b"), call("c", queue="other")]
    store.staging.stage("mixed", "part", calls_of(mixed))
    store.staging.promote("mixed", [Part("part", 3)])
    same = calls_of([call("d"), call("e")])
    store.staging.stage("same", "part", same)
    store.staging.promote("same", [Part("part", 2)])
    assert [tenants_of(store, id) for id in "abcde"] == [{ACME["tenant"]}, {None}, *[{ACME["tenant"]}] * 3]


def test_staged_alike(open_store: OpenStore) -> None:
    store = open_store()
    whole = calls_of([a_push("a", headers=ACME), a_push("b", headers=ACME)])
    rests = [body.split(f'"{id}"', 1)[1] for id, body in zip(whole.ids, whole.bodies, strict=True)]
    head, tail = rests[0].split('"args":', 1)
    args = tail[: tail.index("}") + 1]
    alike = UniformBodies(whole.ids, f'"{head}"args":', [args, args], tail[len(args) :])
    assert alike[0] == whole.bodies[0]
    calls = Calls(ids=whole.ids, names=whole.names, queues=whole.queues, priorities=whole.priorities, bodies=alike)
    store.staging.stage("job", "part", calls)
    store.staging.promote("job", [Part("part", 2)])
    assert tenants_of(store, "a") == tenants_of(store, "b") == {ACME["tenant"]}
