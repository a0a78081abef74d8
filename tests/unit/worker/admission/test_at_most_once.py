"""Locks of tasks that run at most once, where the store's answers are lost: on a real store."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, Ending
from stem.core.errors import StoreUnavailable
from stem.core.lifecycle import State
from stem.core.outcome import Dead, Requeue
from stem.core.record import TaskError
from stem.core.settings.app import Settings
from stem.worker.admission.at_most_once import NO_FREE_ISOLATE, AtMostOnce
from stem.worker.fork.manifest import TaskFacts
from stem.worker.pool.in_flight import InFlightTask
from support.builders import done, pushes
from support.stores.calls import claim

FACTS = TaskFacts(
    name="t", queue="default", is_async=False, isolate=True, retry=None, rate=None, places=None, at_most_once=True
)


class Flaky:
    """The next call of the verb, and so many more, have no answer; done or not done."""

    def __init__(self, inner: Any, verb: str, *, times: int = 1, is_done: bool = True) -> None:
        self._inner, self._verb, self.times, self._is_done = inner, verb, times, is_done
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._inner, name)
        return verb if name != self._verb else lambda *args, **named: self._call(verb, args, named)

    def _call(self, verb: Any, args: Any, named: Any) -> Any:
        self.calls += 1
        if self.calls > self.times:
            return verb(*args, **named)
        if self._is_done:
            verb(*args, **named)
        raise StoreUnavailable("The answer is lost.")


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = connect(f"sqlite:///{tmp_path_factory.mktemp('once')}/stem.db", Settings())
    yield opened
    opened.upkeep.close()


def once(store: Store, *, worker: str = "w1", capacity: int = 10) -> AtMostOnce:
    return AtMostOnce(store, worker, kept_seconds=0.0, capacity=lambda _: capacity)


def claimed(store: Store, *ids: str) -> list[InFlightTask]:
    store.broker.push(pushes(*ids))
    return [InFlightTask(delivery, FACTS) for delivery in claim(store, limit=100, lease=60)]


def endings(sorted_out: list[tuple[InFlightTask, Ending]]) -> list[Ending]:
    return [ending for _, ending in sorted_out]


def test_a_lock_whose_answer_was_lost_is_released_when_the_task_goes_back(store: Store) -> None:
    flaky = once(replace(store, locks=Flaky(store.locks, "acquire")))  # type: ignore[arg-type]
    may_run, denied = flaky.admit(claimed(store, "a"))
    assert may_run == [] and store.locks.owner("once:a") is not None
    assert flaky.settle(endings(denied), worker="w1") == []
    assert store.locks.owner("once:a") is None


def test_after_the_first_lost_answer_the_store_is_not_asked_again(store: Store) -> None:
    locks = Flaky(store.locks, "acquire", times=100)
    may_run, denied = once(replace(store, locks=locks)).admit(claimed(store, "a", "b", "c"))  # type: ignore[arg-type]
    assert (may_run, len(denied), locks.calls) == ([], 3, 1)
    assert all(isinstance(ending.settlement, Requeue) for ending in endings(denied))


def test_an_ending_whose_answer_was_lost_releases_the_lock_the_second_time(store: Store) -> None:
    flaky = once(replace(store, broker=Flaky(store.broker, "settle")))  # type: ignore[arg-type]
    (task,), _ = flaky.admit(claimed(store, "a"))
    failed = Ending(task.lease, Dead("not-retryable", TaskError("E", "e")), 0.1)
    with pytest.raises(StoreUnavailable):
        flaky.settle([failed], worker="w1")
    assert flaky.settle([failed], worker="w1") == [task.lease]
    assert store.locks.owner("once:a") is None
    assert store.deadletters.replay(DeadFilter()) == ["a"]
    may_run, _ = flaky.admit([InFlightTask(delivery, FACTS) for delivery in claim(store)])
    assert len(may_run) == 1


def test_a_refused_ending_of_a_task_that_goes_on_elsewhere_keeps_the_lock(store: Store) -> None:
    here = once(store)
    (task,), _ = here.admit(claimed(store, "a"))
    assert store.broker.settle([Ending(task.lease, Requeue(), 0.1)], worker="w1") == []
    assert here.settle([done(task.lease)], worker="w1") == [task.lease]
    assert store.locks.owner("once:a") is not None


def test_a_lock_that_cannot_be_released_repeats_no_ending_and_is_released_later(store: Store) -> None:
    locks = Flaky(store.locks, "release", is_done=False)
    flaky = once(replace(store, locks=locks))  # type: ignore[arg-type]
    tasks, _ = flaky.admit(claimed(store, "a", "b"))
    assert flaky.settle([done(task.lease) for task in tasks], worker="w1") == []
    assert {record.state for record in store.results.get(["a", "b"]).values()} == {State.SUCCEEDED}
    flaky.settle([], worker="w1")
    assert [store.locks.owner(f"once:{id}") for id in ("a", "b")] == [None, None]


def test_no_more_get_a_lock_than_can_run_so_a_killed_worker_parks_no_others(store: Store) -> None:
    first = once(store, capacity=2)
    may_run, denied = first.admit(claimed(store, *(f"t{number}" for number in range(10))))
    assert len(may_run) == 2 and all(ending.settlement is NO_FREE_ISOLATE for ending in endings(denied))
    assert sum(store.locks.owner(f"once:t{number}") is not None for number in range(10)) == 2
    assert first.admit([task for task, _ in denied])[0] == []
    may_run[0].is_ended = True  # its isolate is free, also while its ending is still to be written
    assert len(first.admit([task for task, _ in denied])[0]) == 1
