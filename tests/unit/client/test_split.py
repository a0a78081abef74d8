"""Broker and results in two stores: whatever stops between two writes, no ending is lost."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from stem import Settings, State, Stem
from stem.backends import memory
from stem.backends.split import GONE, join
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, Delivery, Ending, Report
from stem.core.errors import StoreUnavailable
from stem.core.outcome import Cancelled, Dead, Done, Requeue, Retry
from stem.core.record import TaskError, TaskFilter, TaskRecord
from stem.runtime.clock import FakeClock

ERROR = TaskError("ValueError", "no", retryable=True)
VALUE = Done(msgspec.Raw(b"42"))


class World:
    """A joined store with both of its halves, and tasks that are only names."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.broker = self._store()
        self.results = self._store()
        self.both = join(self.broker, self.results)
        self.app = Stem("memory://never-opened")
        self.app.store_connection._store = self.both

    def _store(self) -> Store:
        return memory.connect(f"memory://{uuid4().hex}", Settings(), clock=self.clock)

    def push(self, **options: Any) -> str:
        return self.app.enqueue("work", check=False, **options).id

    def claim(self) -> Delivery:
        return self.both.broker.claim(["default"], limit=1, lease_seconds=60)[0]

    def expire(self) -> None:
        self.clock.advance(11)
        assert self.both.broker.claim(["default"], limit=1, lease_seconds=60) == []

    def settle(self, delivery: Delivery, settlement: Any, **more: Any) -> bool:
        return not self.both.broker.settle([Ending(delivery.lease, settlement, 1.0, **more)], worker="w")

    def record(self, task_id: str) -> TaskRecord:
        return self.both.results.get([task_id])[task_id]

    def copy(self, task_id: str) -> TaskRecord:
        return self.results.results.get([task_id])[task_id]


@pytest.fixture
def world() -> World:
    return World()


def fail(*_: Any, **__: Any) -> Any:
    raise StoreUnavailable("gone")


def test_a_push_is_found_in_both_and_run_from_the_broker(world: World) -> None:
    task_id = world.push(meta={"a": 1})
    assert world.copy(task_id) == world.broker.results.get([task_id])[task_id]
    assert world.results.broker.depth() == {}
    assert world.broker.broker.depth()["default"].ready == 1


def test_a_start_that_is_dated_back_is_so_in_both(world: World) -> None:
    by_start, by_report = world.push(), world.push()
    first, second = world.claim(), world.claim()
    world.both.broker.start([first.lease], worker="w", ago_seconds=[3.0])
    world.both.broker.report([Report(second.lease, None, 3.0)], worker="w")
    for task_id in (by_start, by_report):
        began = world.copy(task_id).started_at
        assert began is not None and began == world.record(task_id).started_at
        assert began.timestamp() == pytest.approx(world.both.upkeep.now() - 3.0, abs=0.001)
    world.settle(first, VALUE)
    assert world.copy(by_start).started_at == world.record(by_start).started_at


def test_start_report_retry_and_end_are_copied(world: World) -> None:
    task_id, delivery = world.push(), world.claim()
    world.both.broker.start([delivery.lease], worker="w")
    assert world.copy(task_id).state is State.RUNNING
    world.both.broker.report([Report(delivery.lease, {"done": 5})], worker="w")
    assert world.copy(task_id).meta["progress"] == {"done": 5}
    world.settle(delivery, Retry(0.0, ERROR))
    assert (world.copy(task_id).state, world.copy(task_id).attempt) == (State.RETRIED, 1)
    world.settle(world.claim(), VALUE)
    assert (world.copy(task_id).state, world.copy(task_id).result()) == (State.SUCCEEDED, 42)


@pytest.mark.parametrize(
    "settlement", [VALUE, Dead("given-up", ERROR), Cancelled("revoked")], ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize("started", [True, False])
def test_the_copy_of_an_ending_is_what_the_broker_writes(world: World, settlement: Any, started: bool) -> None:
    task_id, delivery = world.push(meta={"a": 1}), world.claim()
    if started:
        world.both.broker.start([delivery.lease], worker="w")
    world.clock.advance(5)
    assert world.settle(delivery, settlement, meta={"b": 2})
    assert world.copy(task_id) == world.broker.results.get([task_id])[task_id]


def test_of_two_endings_for_one_lease_the_first_counts(world: World) -> None:
    task_id, delivery = world.push(), world.claim()
    endings = [Ending(delivery.lease, Retry(60.0, ERROR), 1.0), Ending(delivery.lease, VALUE, 1.0)]
    assert world.both.broker.settle(endings, worker="w") == [delivery.lease]
    assert world.record(task_id).state is State.RETRIED
    assert world.copy(task_id).state is State.RETRIED


def test_a_holder_who_lost_the_lease_overwrites_nothing(world: World) -> None:
    task_id, late = world.push(), world.claim()
    world.clock.advance(61)
    world.both.broker.reclaim()
    world.settle(world.claim(), VALUE)
    assert not world.settle(late, Dead("late", ERROR))
    assert world.record(task_id).state is State.SUCCEEDED
    assert world.copy(task_id).state is State.SUCCEEDED


def test_an_ending_survives_a_crash_before_the_broker_heard_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id, delivery = world.push(), world.claim()
    with monkeypatch.context() as patch:
        patch.setattr(type(world.broker.broker), "settle", fail)
        with pytest.raises(StoreUnavailable):
            world.settle(delivery, VALUE)
    assert world.record(task_id).state is State.SUCCEEDED
    assert world.both.results.wait([task_id], timeout_seconds=5)[task_id].result() == 42
    world.clock.advance(61)
    assert world.both.broker.reclaim().returned == [task_id]
    assert world.settle(world.claim(), Done(msgspec.Raw(b"43")))
    assert world.record(task_id).result() == 43


def test_no_ending_is_acknowledged_while_the_results_store_is_gone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id, delivery = world.push(), world.claim()
    with monkeypatch.context() as patch:
        patch.setattr(world.results.results, "save", fail, raising=False)
        with pytest.raises(StoreUnavailable):
            world.settle(delivery, VALUE)
    assert world.broker.broker.depth()["default"].running == 1
    assert world.settle(delivery, VALUE)
    assert world.record(task_id).state is State.SUCCEEDED


def test_a_push_counts_though_its_copy_could_not_be_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(world.results.results, "save", fail, raising=False)
        task_id = world.push()
    assert world.results.results.get([task_id]) == {}
    assert world.record(task_id).state is State.QUEUED
    assert world.settle(world.claim(), VALUE)
    assert world.copy(task_id).state is State.SUCCEEDED


ENDED_BY_THE_BROKER: dict[str, Callable[[World], object]] = {
    "purged": lambda world: world.both.broker.purge("default"),
    "expired": lambda world: world.expire(),
}


@pytest.mark.parametrize("way", ENDED_BY_THE_BROKER)
def test_an_ending_that_the_broker_made_is_read_waited_for_and_copied(world: World, way: str) -> None:
    task_id = world.push(expires=10)
    ENDED_BY_THE_BROKER[way](world)
    assert world.both.results.wait([task_id], timeout_seconds=5)[task_id].state is State.CANCELLED
    assert world.copy(task_id).state is State.CANCELLED
    assert [record.id for record in page(world, state=State.CANCELLED)] == [task_id]
    assert page(world, state=State.QUEUED) == []


def test_a_task_given_up_as_a_crash_loop_is_copied(world: World) -> None:
    task_id = world.push()
    for _ in range(3):
        world.both.broker.start([world.claim().lease], worker="w")
        world.clock.advance(61)
        reclaimed = world.both.broker.reclaim()
    assert reclaimed.dead == [task_id]
    assert world.copy(task_id).state is State.FAILED


def test_a_replayed_task_is_queued_again_and_ends_again(world: World) -> None:
    task_id = world.push()
    world.settle(world.claim(), Dead("given-up", ERROR))
    world.clock.advance(1)
    world.both.deadletters.replay(DeadFilter(ids=(task_id,)))
    assert world.record(task_id).state is State.QUEUED
    assert world.both.results.wait([task_id], timeout_seconds=0.05) == {}
    assert page(world, state=State.FAILED) == []
    world.settle(world.claim(), VALUE)
    assert world.record(task_id).state is State.SUCCEEDED


def test_follow_ups_and_requeues_are_seen(world: World) -> None:
    first, second = world.push(), world.push(delay=60)
    follow_up = msgspec.structs.replace(world.broker.broker.peek("default", limit=1)[0], id="next")
    envelope = msgspec.json.decode(follow_up.body)
    assert envelope["id"] == first
    delivery = world.claim()
    world.both.broker.start([delivery.lease], worker="w")
    world.settle(delivery, Requeue(reason="pause"))
    assert world.record(first).state is State.QUEUED
    assert world.record(second).state is State.QUEUED


def test_a_copy_does_not_wait_for_ever_for_a_task_that_is_gone(world: World) -> None:
    purged, pruned = world.push(), world.push()
    world.both.broker.purge("default")
    assert world.copy(purged).state is State.QUEUED
    world.clock.advance(8 * 86400)
    world.broker.upkeep.prune()
    assert world.both.results.wait([pruned], timeout_seconds=5)[pruned].state is State.CANCELLED
    world.push(delay=60)
    while world.both.upkeep.prune():
        pass
    assert [record.state for record in world.results.results.page(TaskFilter(), limit=9).items] == [State.QUEUED]


def test_unknown_ids_stay_unknown(world: World) -> None:
    assert world.both.results.get(["nobody"]) == {}
    assert world.both.results.wait(["nobody"], timeout_seconds=0.02) == {}


def test_upkeep_is_for_both(world: World) -> None:
    task_id = world.push()
    world.settle(world.claim(), VALUE)
    assert world.both.upkeep.diagnose().backend == "memory+memory"
    world.clock.advance(8 * 86400)
    while world.both.upkeep.prune():
        pass
    assert world.both.results.get([task_id]) == {}
    assert world.both.upkeep.now() == world.clock()
    world.both.upkeep.close()


def page(world: World, **where: Any) -> Sequence[TaskRecord]:
    return world.both.results.page(TaskFilter(**where), limit=10).items


def test_looking_through_another_broker_writes_nothing_down(world: World) -> None:
    task_id = world.push()
    stranger = join(world._store(), world.results)
    assert stranger.results.get([task_id])[task_id].state is State.CANCELLED
    assert stranger.results.page(TaskFilter(), limit=9).items[0].state is State.CANCELLED
    assert world.copy(task_id).state is State.QUEUED
    assert world.record(task_id).state is State.QUEUED


def test_the_brokers_record_wins_over_a_strangers_guess(world: World) -> None:
    waiting, ended = world.push(), world.push(queue="other", expires=5)
    join(world._store(), world.results).upkeep.prune()
    assert world.copy(waiting).state is State.CANCELLED
    assert world.record(waiting).state is State.QUEUED
    world.clock.advance(6)
    world.both.broker.claim(["other"], limit=1, lease_seconds=60)
    assert world.record(ended).error != GONE
    assert world.copy(ended).error == world.record(ended).error
    world.settle(world.claim(), VALUE)
    assert world.record(waiting).state is State.SUCCEEDED
