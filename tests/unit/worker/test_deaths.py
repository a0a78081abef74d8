"""What becomes of the runs of an isolate that has ended."""

import pytest

from stem.core.outcome import Dead, Died, Interrupted, Requeue, TimedOut
from stem.core.settle import Policy, settle
from stem.worker.deaths import estate, is_out_of_memory
from unit.worker.rooms import MakeRoom, a_held, assign


def test_what_ran_has_died_and_what_waited_has_lost_nothing(make_room: MakeRoom) -> None:
    room, isolate = make_room()
    first, second = a_held(), a_held()
    assign(room, first, second)
    isolate.cell.begin(0, isolate.receive())
    left = estate(room, 3, out_of_memory=False)
    assert [(held, outcome) for held, outcome, _ in left.ended] == [(first, Died(3))]
    assert all(0 <= seconds < 60 for _, _, seconds in left.ended)
    assert left.unstarted == [second] and room.assigned == {}


def test_one_whose_ending_was_never_heard_has_died_too(make_room: MakeRoom) -> None:
    """Its line was spoilt: run again as if it had not begun, it would do so for ever."""
    room, isolate = make_room()
    first, second = a_held(), a_held()
    assign(room, first, second)
    isolate.cell.begin(0, isolate.receive())
    isolate.cell.end(0)
    left = estate(room, 86, out_of_memory=False)
    assert [held for held, _, _ in left.ended] == [first] and left.unstarted == [second]


def test_all_coroutines_of_an_isolate_that_fell_are_suspects(make_room: MakeRoom) -> None:
    room, isolate = make_room(slots=3)
    helds = [a_held(is_async=True) for _ in range(3)]
    assign(room, *helds)
    for slot in range(2):
        isolate.cell.begin(slot, isolate.receive())
    left = estate(room, -11, out_of_memory=False)
    assert [(held, outcome) for held, outcome, _ in left.ended] == [(held, Died(-11)) for held in helds[:2]]
    assert left.unstarted == helds[2:]


def test_neighbours_of_one_that_was_ended_on_purpose_were_interrupted(make_room: MakeRoom) -> None:
    room, isolate = make_room(slots=2)
    culprit, neighbour = a_held(is_async=True), a_held(is_async=True)
    assign(room, culprit, neighbour)
    for slot in range(2):
        isolate.cell.begin(slot, isolate.receive())
    culprit.verdict, room.is_doomed = TimedOut(1.0), True
    outcomes = {held: outcome for held, outcome, _ in estate(room, -9, out_of_memory=False).ended}
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
        (Died(-9, out_of_memory=True), "was killed by the system for want of memory"),
        (Died(-200), "was ended by signal 200"),
    ],
)
def test_deaths_are_told_apart(death: Died, how: str) -> None:
    decided = settle(death, Policy(max_retries=0), attempt=0, deaths=2, roll=0.0)
    assert isinstance(decided, Dead) and decided.reason == "crash-loop"
    assert decided.error.message == f"The process that ran the task {how}."
    earlier = settle(death, Policy(max_retries=0), attempt=0, deaths=1, roll=0.0)
    assert isinstance(earlier, Requeue) and earlier.died
