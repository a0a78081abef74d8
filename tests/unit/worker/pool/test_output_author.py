"""Untagged output belongs to the task that ran when it was read, also when others start around the read."""

import os
import time

from stem.worker.pool.isolates import _alone, _author
from unit.worker.pool.isolate_states import MakeIsolate, assign, new_task


def test_a_task_that_began_after_the_look_and_before_the_read_wrote_it(make_isolate: MakeIsolate) -> None:
    isolate, child = make_isolate()
    first, second = new_task(), new_task()
    assign(isolate, first, second)
    child.status.begin(0, first.number)
    before = _alone(isolate)
    child.status.end(0)
    child.status.begin(0, second.number)  # while the pool's thread was held up
    os.write(child.output, b"said by the second\n")
    assert before == first.lease.id
    assert _author(isolate, before, time.monotonic()) == second.lease.id


def test_a_task_that_began_after_the_read_did_not_write_it(make_isolate: MakeIsolate) -> None:
    isolate, child = make_isolate()
    first, second = new_task(), new_task()
    assign(isolate, first, second)
    child.status.begin(0, first.number)
    before, read_at = _alone(isolate), time.monotonic()
    child.status.end(0)
    child.status.begin(0, second.number)
    assert _author(isolate, before, read_at) == first.lease.id


def test_a_task_that_is_over_by_then_still_counts(make_isolate: MakeIsolate) -> None:
    isolate, child = make_isolate()
    task = new_task()
    assign(isolate, task)
    child.status.begin(0, task.number)
    child.status.end(0)
    assert _author(isolate, "", time.monotonic()) == task.lease.id
