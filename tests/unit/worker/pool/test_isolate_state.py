"""Which isolate takes a task, what it holds, and what can be had back from it."""

import pytest

from stem.worker.pool.backlog import choose
from stem.worker.pool.isolate_state import AHEAD_MOST, RunTimes
from unit.worker.pool.isolate_states import MakeIsolate, assign, new_task


def quick(name: str = "it") -> RunTimes:
    run_times = RunTimes()
    run_times.add(name, 0.0001)
    return run_times


def test_the_emptiest_takes_it(make_isolate: MakeIsolate) -> None:
    (one, _), (two, _), (three, _) = make_isolate(), make_isolate(), make_isolate()
    assign(one, new_task(), new_task())
    assign(two, new_task())
    assert choose([one, two, three], new_task(), quick()) is three
    assert choose([one, two], new_task(), quick()) is two


@pytest.mark.parametrize("what", ["is_ready", "is_retiring", "is_killed"])
def test_one_that_comes_or_goes_takes_nothing(make_isolate: MakeIsolate, what: str) -> None:
    isolate, _ = make_isolate()
    setattr(isolate, what, what != "is_ready")
    assert choose([isolate], new_task(), quick()) is None


def test_a_busy_one_takes_more_only_of_what_is_known_to_be_quick(make_isolate: MakeIsolate) -> None:
    isolate, _ = make_isolate()
    assign(isolate, new_task())
    assert choose([isolate], new_task(), RunTimes()) is None
    slow = RunTimes()
    slow.add("it", 1.0)
    assert choose([isolate], new_task(), slow) is None
    assert choose([isolate], new_task(), quick()) is isolate
    assert choose([isolate], new_task(name="other"), quick()) is None


def test_how_far_ahead_follows_from_how_long_runs_take() -> None:
    run_times = RunTimes()
    assert run_times.prefetch("it") == 0
    run_times.add("it", 0.002)
    assert 3 <= run_times.prefetch("it") <= 5
    run_times.add("free", 0.0)
    assert run_times.prefetch("free") == AHEAD_MOST
    for _ in range(100):
        run_times.add("it", 0.5)
    assert run_times.prefetch("it") == 0


def test_coroutines_share_and_plain_tasks_do_not(make_isolate: MakeIsolate) -> None:
    isolate, _ = make_isolate(slots=3)
    assign(isolate, new_task(is_async=True))
    assert choose([isolate], new_task(is_async=True), RunTimes()) is isolate
    assert choose([isolate], new_task(), quick()) is None
    assign(isolate, new_task(is_async=True), new_task(is_async=True))
    assert choose([isolate], new_task(is_async=True), RunTimes()) is None
    plain, _ = make_isolate(slots=3)
    assign(plain, new_task())
    assert choose([plain], new_task(is_async=True), quick()) is None


def test_a_suspect_runs_alone(make_isolate: MakeIsolate) -> None:
    shared, _ = make_isolate(slots=3)
    assign(shared, new_task(is_async=True))
    assert choose([shared], new_task(is_async=True, deaths=1), RunTimes()) is None
    held_by_suspect, _ = make_isolate(slots=3)
    assign(held_by_suspect, new_task(is_async=True, deaths=1))
    assert choose([held_by_suspect], new_task(is_async=True), RunTimes()) is None
    lane, _ = make_isolate(slots=3, is_inline=True)
    assign(lane, new_task(isolate=False))
    assert choose([lane], new_task(isolate=False, deaths=2), RunTimes()) is None
    assert choose([lane], new_task(isolate=False), RunTimes()) is lane


def test_one_whose_runs_are_counted_takes_no_more_than_are_left(make_isolate: MakeIsolate) -> None:
    isolate, _ = make_isolate(max_tasks=3)
    isolate.finished = 1
    assign(isolate, new_task())
    assert choose([isolate], new_task(), quick()) is isolate
    assign(isolate, new_task())
    assert choose([isolate], new_task(), quick()) is None
    lane, _ = make_isolate(slots=2, is_inline=True, max_tasks=1)
    lane.finished = 5
    assign(lane, new_task(isolate=False))
    assert choose([lane], new_task(isolate=False), RunTimes()) is lane
    assign(lane, new_task(isolate=False))
    assert choose([lane], new_task(isolate=False), RunTimes()) is None


def test_coroutines_and_inline_tasks_occupy_no_isolate_of_their_own(make_isolate: MakeIsolate) -> None:
    plain, _ = make_isolate(slots=3)
    assign(plain, new_task())
    assert plain.sharing == 0
    shared, _ = make_isolate(slots=3)
    counts = []
    for _ in range(3):
        assign(shared, new_task(is_async=True))
        counts.append(shared.sharing)
    assert counts == [1, 2, 2]
    lane, _ = make_isolate(slots=1, is_inline=True)
    assign(lane, new_task(isolate=False))
    assert lane.sharing == 1


def test_unstarted_tasks_can_be_taken_back(make_isolate: MakeIsolate) -> None:
    isolate, child = make_isolate()
    first, second, third = new_task(), new_task(), new_task()
    assign(isolate, first, second, third)
    child.status.begin(0, child.receive())
    assert isolate.take_back() == [second, third]
    assert list(isolate.running()) == [(0, first)] and list(isolate.assigned.values()) == [first]
    assert isolate.take_back() == []


def test_progress_is_told_once_and_only_of_the_run_that_is_asked_for(make_isolate: MakeIsolate) -> None:
    isolate, child = make_isolate()
    task = new_task()
    assign(isolate, task)
    child.status.begin(0, task.number)
    child.status.beat(0, b'{"fraction":0.5}')
    assert isolate.progress(0, task) == {"fraction": 0.5}
    assert task.beats == child.status.beats(0)
    child.status.beat(0, b"")
    assert isolate.progress(0, task) == {}
    child.status.beat(0, b"no json")
    assert isolate.progress(0, task) is None
    child.status.begin(0, task.number + 1)
    assert isolate.progress(0, task) is None
