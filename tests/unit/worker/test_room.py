"""Which isolate takes a task, what it holds, and what can be had back from it."""

import pytest

from stem.worker.room import AHEAD_MOST, Pace, choose
from unit.worker.rooms import MakeRoom, a_held, assign


def quick(name: str = "it") -> Pace:
    pace = Pace()
    pace.learn(name, 0.0001)
    return pace


def test_the_emptiest_takes_it(make_room: MakeRoom) -> None:
    (one, _), (two, _), (three, _) = make_room(), make_room(), make_room()
    assign(one, a_held(), a_held())
    assign(two, a_held())
    assert choose([one, two, three], a_held(), quick()) is three
    assert choose([one, two], a_held(), quick()) is two


@pytest.mark.parametrize("what", ["is_ready", "is_leaving", "is_doomed"])
def test_one_that_comes_or_goes_takes_nothing(make_room: MakeRoom, what: str) -> None:
    room, _ = make_room()
    setattr(room, what, what != "is_ready")
    assert choose([room], a_held(), quick()) is None


def test_a_busy_one_takes_more_only_of_what_is_known_to_be_quick(make_room: MakeRoom) -> None:
    room, _ = make_room()
    assign(room, a_held())
    assert choose([room], a_held(), Pace()) is None
    slow = Pace()
    slow.learn("it", 1.0)
    assert choose([room], a_held(), slow) is None
    assert choose([room], a_held(), quick()) is room
    assert choose([room], a_held(name="other"), quick()) is None


def test_how_far_ahead_follows_from_how_long_runs_take() -> None:
    pace = Pace()
    assert pace.ahead("it") == 0
    pace.learn("it", 0.002)
    assert 3 <= pace.ahead("it") <= 5
    pace.learn("free", 0.0)
    assert pace.ahead("free") == AHEAD_MOST
    for _ in range(100):
        pace.learn("it", 0.5)
    assert pace.ahead("it") == 0


def test_coroutines_share_and_plain_tasks_do_not(make_room: MakeRoom) -> None:
    room, _ = make_room(slots=3)
    assign(room, a_held(is_async=True))
    assert choose([room], a_held(is_async=True), Pace()) is room
    assert choose([room], a_held(), quick()) is None
    assign(room, a_held(is_async=True), a_held(is_async=True))
    assert choose([room], a_held(is_async=True), Pace()) is None
    plain, _ = make_room(slots=3)
    assign(plain, a_held())
    assert choose([plain], a_held(is_async=True), quick()) is None


def test_a_suspect_runs_alone(make_room: MakeRoom) -> None:
    shared, _ = make_room(slots=3)
    assign(shared, a_held(is_async=True))
    assert choose([shared], a_held(is_async=True, deaths=1), Pace()) is None
    held_by_suspect, _ = make_room(slots=3)
    assign(held_by_suspect, a_held(is_async=True, deaths=1))
    assert choose([held_by_suspect], a_held(is_async=True), Pace()) is None
    lane, _ = make_room(slots=3, is_lane=True)
    assign(lane, a_held(isolate=False))
    assert choose([lane], a_held(isolate=False, deaths=2), Pace()) is None
    assert choose([lane], a_held(isolate=False), Pace()) is lane


def test_one_whose_runs_are_counted_takes_no_more_than_are_left(make_room: MakeRoom) -> None:
    room, _ = make_room(most=3)
    room.finished = 1
    assign(room, a_held())
    assert choose([room], a_held(), quick()) is room
    assign(room, a_held())
    assert choose([room], a_held(), quick()) is None
    lane, _ = make_room(slots=2, is_lane=True, most=1)
    lane.finished = 5
    assign(lane, a_held(isolate=False))
    assert choose([lane], a_held(isolate=False), Pace()) is lane
    assign(lane, a_held(isolate=False))
    assert choose([lane], a_held(isolate=False), Pace()) is None


def test_what_leaves_room_beside_it(make_room: MakeRoom) -> None:
    plain, _ = make_room(slots=3)
    assign(plain, a_held())
    assert plain.beside == 0
    shared, _ = make_room(slots=3)
    counts = []
    for _ in range(3):
        assign(shared, a_held(is_async=True))
        counts.append(shared.beside)
    assert counts == [1, 2, 2]
    lane, _ = make_room(slots=1, is_lane=True)
    assign(lane, a_held(isolate=False))
    assert lane.beside == 1


def test_what_has_not_begun_can_be_had_back(make_room: MakeRoom) -> None:
    room, isolate = make_room()
    first, second, third = a_held(), a_held(), a_held()
    assign(room, first, second, third)
    isolate.cell.begin(0, isolate.receive())
    assert room.take_back() == [second, third]
    assert list(room.running()) == [(0, first)] and list(room.assigned.values()) == [first]
    assert room.take_back() == []


def test_progress_is_told_once_and_only_of_the_run_that_is_asked_for(make_room: MakeRoom) -> None:
    room, isolate = make_room()
    held = a_held()
    assign(room, held)
    isolate.cell.begin(0, held.number)
    isolate.cell.beat(0, b'{"fraction":0.5}')
    assert room.progress(0, held) == {"fraction": 0.5}
    assert held.beats == isolate.cell.beats(0)
    isolate.cell.beat(0, b"")
    assert room.progress(0, held) == {}
    isolate.cell.beat(0, b"no json")
    assert room.progress(0, held) is None
    isolate.cell.begin(0, held.number + 1)
    assert room.progress(0, held) is None
