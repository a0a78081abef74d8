"""The watchdog finds tasks past their limits, starts and progress."""

import time

from stem.core.delivery import Report
from stem.worker.pool.watchdog import (
    GraceExpired,
    HardLimitExceeded,
    Limits,
    PrefetchBlocked,
    ProgressMade,
    RunStarted,
    SoftLimitExceeded,
    StopIgnored,
    look,
)
from unit.worker.pool.isolate_states import MakeIsolate, assign, new_task

NONE = Limits(None, None)


def test_nothing_is_found_in_an_idle_isolate_or_a_fresh_run(make_isolate: MakeIsolate) -> None:
    isolate, child = make_isolate()
    now = time.monotonic()
    assert list(look(isolate, now, Limits(1.0, 2.0))) == []
    task = new_task()
    assign(isolate, task)
    assert list(look(isolate, now + 60, Limits(1.0, 2.0))) == []  # it waits, which has no limit
    child.status.begin(0, task.number)
    assert list(look(isolate, child.status.times(0)[0], Limits(1.0, 2.0))) == []


def test_limits_of_the_run_count_before_the_workers(make_isolate: MakeIsolate) -> None:
    isolate, child = make_isolate()
    task = new_task()
    task.start_reported = True
    assign(isolate, task)
    child.status.begin(0, task.number)
    started_at = child.status.times(0)[0]
    workers = Limits(1.0, 2.0)
    assert list(look(isolate, started_at + 0.9, workers)) == []
    assert list(look(isolate, started_at + 1.1, workers)) == [SoftLimitExceeded(0, task)]
    assert list(look(isolate, started_at + 2.1, workers)) == [HardLimitExceeded(0, task, 2.0)]
    child.status.limit(0, 5.0, 9.0)
    assert list(look(isolate, started_at + 4.9, workers)) == []
    assert list(look(isolate, started_at + 5.1, workers)) == [SoftLimitExceeded(0, task)]
    task.soft_limit_sent = True
    assert list(look(isolate, started_at + 8.9, workers)) == []
    assert list(look(isolate, started_at + 9.1, NONE)) == [HardLimitExceeded(0, task, 9.0)]


def test_a_run_that_lasts_is_said_to_have_begun_once(make_isolate: MakeIsolate) -> None:
    isolate, child = make_isolate()
    task = new_task()
    assign(isolate, task)
    child.status.begin(0, task.number)
    now = time.monotonic() + 0.2
    assert list(look(isolate, now, NONE)) == [RunStarted(task)]
    assert task.started_at == child.status.times(0)[0]
    assert list(look(isolate, now, NONE)) == []


def test_progress_of_a_run_is_reported_once(make_isolate: MakeIsolate) -> None:
    isolate, child = make_isolate()
    task = new_task()
    assign(isolate, task)
    child.status.begin(0, task.number)
    child.status.beat(0, b'{"fraction":0.5}')
    now = time.monotonic() + 0.2
    assert list(look(isolate, now, NONE)) == [ProgressMade(task, Report(task.lease, {"fraction": 0.5}))]
    assert task.started_at == child.status.times(0)[0]
    assert list(look(isolate, now, NONE)) == []  # and that it has begun is said thereby
    child.status.beat(0, b"")
    assert list(look(isolate, now, NONE)) == [ProgressMade(task, Report(task.lease, None))]


def test_a_long_run_is_in_the_way_of_those_behind_it(make_isolate: MakeIsolate) -> None:
    isolate, child = make_isolate()
    task, waiting = new_task(), new_task()
    task.start_reported = True
    assign(isolate, task, waiting)
    child.status.begin(0, task.number)
    now = child.status.times(0)[0]
    assert list(look(isolate, now + 0.01, NONE)) == []
    assert list(look(isolate, now + 0.1, NONE)) == [PrefetchBlocked()]
    isolate.take_back()
    assert list(look(isolate, now + 0.1, NONE)) == [PrefetchBlocked()] * (len(isolate.assigned) - 1)


def test_each_coroutine_has_its_own_limits(make_isolate: MakeIsolate) -> None:
    isolate, child = make_isolate(slots=3)
    tasks = [new_task(is_async=True) for _ in range(3)]
    assign(isolate, *tasks)
    for slot, task in enumerate(tasks):
        task.start_reported = True
        child.status.begin(slot, task.number)
        child.status.limit(slot, None, 1.0 + slot)
    now = child.status.times(1)[0]
    assert list(look(isolate, now + 2.5, NONE)) == [
        HardLimitExceeded(0, tasks[0], 1.0),
        HardLimitExceeded(1, tasks[1], 2.0),
    ]


def test_one_that_was_told_to_stop_is_signalled_after_half_its_grace_and_killed_after_all_of_it(
    make_isolate: MakeIsolate,
) -> None:
    isolate, child = make_isolate()
    task = new_task()
    task.start_reported = True
    assign(isolate, task)
    child.status.begin(0, task.number)
    task.stop_requested_at = now = time.monotonic()
    limits = Limits(None, None, grace=4.0)
    assert list(look(isolate, now + 1.9, limits)) == []
    assert list(look(isolate, now + 2.1, limits)) == [StopIgnored(task)]
    task.stop_signal_sent = True
    assert list(look(isolate, now + 2.1, limits)) == []
    assert list(look(isolate, now + 4.1, limits)) == [GraceExpired(0, task)]
