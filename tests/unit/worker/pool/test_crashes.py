"""The tasks of an isolate that has exited are settled or go to another one."""

import pytest

from stem.core.decisions.settle import Policy, settle
from stem.core.outcome import Dead, Died, Interrupted, Requeue, TimedOut
from stem.worker.pool.crashes import after_crash, is_out_of_memory
from unit.worker.pool.isolate_states import MakeIsolate, assign, new_task


def test_running_tasks_die_with_their_isolate_and_waiting_ones_lose_nothing(make_isolate: MakeIsolate) -> None:
    isolate, child = make_isolate()
    first, second = new_task(), new_task()
    assign(isolate, first, second)
    child.status.begin(0, child.receive())
    left = after_crash(isolate, 3, out_of_memory=False)
    assert [(task, outcome) for task, outcome, _ in left.ended] == [(first, Died(3))]
    assert all(0 <= seconds < 60 for _, _, seconds in left.ended)
    assert left.unstarted == [second] and isolate.assigned == {}


def test_a_task_whose_ending_was_never_received_has_died(make_isolate: MakeIsolate) -> None:
    """Its line was spoilt: run again as if it had not begun, it would do so for ever."""
    isolate, child = make_isolate()
    first, second = new_task(), new_task()
    assign(isolate, first, second)
    child.status.begin(0, child.receive())
    child.status.end(0)
    left = after_crash(isolate, 86, out_of_memory=False)
    assert [task for task, _, _ in left.ended] == [first] and left.unstarted == [second]


def test_all_coroutines_of_an_isolate_that_fell_are_suspects(make_isolate: MakeIsolate) -> None:
    isolate, child = make_isolate(slots=3)
    tasks = [new_task(is_async=True) for _ in range(3)]
    assign(isolate, *tasks)
    for slot in range(2):
        child.status.begin(slot, child.receive())
    left = after_crash(isolate, -11, out_of_memory=False)
    assert [(task, outcome) for task, outcome, _ in left.ended] == [(task, Died(-11)) for task in tasks[:2]]
    assert left.unstarted == tasks[2:]


def test_neighbours_of_one_that_was_ended_on_purpose_were_interrupted(make_isolate: MakeIsolate) -> None:
    isolate, child = make_isolate(slots=2)
    culprit, neighbour = new_task(is_async=True), new_task(is_async=True)
    assign(isolate, culprit, neighbour)
    for slot in range(2):
        child.status.begin(slot, child.receive())
    culprit.stop_outcome, isolate.is_killed = TimedOut(1.0), True
    outcomes = {task: outcome for task, outcome, _ in after_crash(isolate, -9, out_of_memory=False).ended}
    assert outcomes[culprit] == TimedOut(1.0)
    assert isinstance(outcomes[neighbour], Interrupted)


@pytest.mark.parametrize(
    ("exit_code", "by_us", "grown", "expected"),
    [
        (-9, False, True, True),
        (-9, False, False, False),  # somebody else's kill
        (-9, True, True, False),  # our own, while another process was short of memory
        (-15, False, True, False),
        (137, False, True, False),  # an exit code that only looks like it
        (0, False, True, False),
    ],
)
def test_want_of_memory_is_told_from_other_kills(exit_code: int, by_us: bool, grown: bool, expected: bool) -> None:
    assert is_out_of_memory(exit_code, by_us=by_us, kills_before=4, kills_now=4 + grown) is expected


@pytest.mark.parametrize(
    ("death", "how"),
    [
        (Died(3), "ended with exit code 3"),
        (Died(-11), "was ended by SIGSEGV"),
        (Died(-9), "was ended by SIGKILL"),
        (Died(-9, out_of_memory=True), "was killed by the system for lack of memory"),
        (Died(-200), "was ended by signal 200"),
    ],
)
def test_deaths_are_told_apart(death: Died, how: str) -> None:
    settlement = settle(death, Policy(max_retries=0), attempt=0, deaths=2, random_fraction=0.0)
    assert isinstance(settlement, Dead) and settlement.reason == "crash-loop"
    assert settlement.error.message == f"The process that ran the task {how}."
    earlier = settle(death, Policy(max_retries=0), attempt=0, deaths=1, random_fraction=0.0)
    assert isinstance(earlier, Requeue) and earlier.died
