"""What a look at a running task finds."""

import time

from stem.core.delivery import Report
from stem.worker.guard import Begun, Deaf, Defiant, InTheWay, Limits, Overdue, SoftlyOverdue, Told, look
from unit.worker.rooms import MakeRoom, a_held, assign

NONE = Limits(None, None)


def test_nothing_is_found_in_an_idle_room_or_a_fresh_run(make_room: MakeRoom) -> None:
    room, isolate = make_room()
    now = time.monotonic()
    assert list(look(room, now, Limits(1.0, 2.0))) == []
    held = a_held()
    assign(room, held)
    assert list(look(room, now + 60, Limits(1.0, 2.0))) == []  # it waits, which has no limit
    isolate.cell.begin(0, held.number)
    assert list(look(room, isolate.cell.times(0)[0], Limits(1.0, 2.0))) == []


def test_limits_of_the_run_count_before_the_workers(make_room: MakeRoom) -> None:
    room, isolate = make_room()
    held = a_held()
    held.is_begun = True
    assign(room, held)
    isolate.cell.begin(0, held.number)
    started_at = isolate.cell.times(0)[0]
    workers = Limits(1.0, 2.0)
    assert list(look(room, started_at + 0.9, workers)) == []
    assert list(look(room, started_at + 1.1, workers)) == [SoftlyOverdue(0, held)]
    assert list(look(room, started_at + 2.1, workers)) == [Overdue(0, held, 2.0)]
    isolate.cell.limit(0, 5.0, 9.0)
    assert list(look(room, started_at + 4.9, workers)) == []
    assert list(look(room, started_at + 5.1, workers)) == [SoftlyOverdue(0, held)]
    held.is_soft = True
    assert list(look(room, started_at + 8.9, workers)) == []
    assert list(look(room, started_at + 9.1, NONE)) == [Overdue(0, held, 9.0)]


def test_a_run_that_lasts_is_said_to_have_begun_once(make_room: MakeRoom) -> None:
    room, isolate = make_room()
    held = a_held()
    assign(room, held)
    isolate.cell.begin(0, held.number)
    now = time.monotonic() + 0.2
    assert list(look(room, now, NONE)) == [Begun(held)]
    assert held.began_at == isolate.cell.times(0)[0]
    assert list(look(room, now, NONE)) == []


def test_what_a_run_says_is_reported_once(make_room: MakeRoom) -> None:
    room, isolate = make_room()
    held = a_held()
    assign(room, held)
    isolate.cell.begin(0, held.number)
    isolate.cell.beat(0, b'{"fraction":0.5}')
    now = time.monotonic() + 0.2
    assert list(look(room, now, NONE)) == [Told(held, Report(held.lease, {"fraction": 0.5}))]
    assert held.began_at == isolate.cell.times(0)[0]
    assert list(look(room, now, NONE)) == []  # and that it has begun is said thereby
    isolate.cell.beat(0, b"")
    assert list(look(room, now, NONE)) == [Told(held, Report(held.lease, None))]


def test_a_long_run_is_in_the_way_of_those_behind_it(make_room: MakeRoom) -> None:
    room, isolate = make_room()
    held, waiting = a_held(), a_held()
    held.is_begun = True
    assign(room, held, waiting)
    isolate.cell.begin(0, held.number)
    now = isolate.cell.times(0)[0]
    assert list(look(room, now + 0.01, NONE)) == []
    assert list(look(room, now + 0.1, NONE)) == [InTheWay()]
    room.take_back()
    assert list(look(room, now + 0.1, NONE)) == [InTheWay()] * (len(room.assigned) - 1)


def test_each_coroutine_has_its_own_limits(make_room: MakeRoom) -> None:
    room, isolate = make_room(slots=3)
    helds = [a_held(is_async=True) for _ in range(3)]
    assign(room, *helds)
    for slot, held in enumerate(helds):
        held.is_begun = True
        isolate.cell.begin(slot, held.number)
        isolate.cell.limit(slot, None, 1.0 + slot)
    now = isolate.cell.times(1)[0]
    assert list(look(room, now + 2.5, NONE)) == [Overdue(0, helds[0], 1.0), Overdue(1, helds[1], 2.0)]


def test_one_that_was_told_to_stop_is_deaf_after_half_its_grace_and_defiant_after_all_of_it(
    make_room: MakeRoom,
) -> None:
    room, isolate = make_room()
    held = a_held()
    held.is_begun = True
    assign(room, held)
    isolate.cell.begin(0, held.number)
    held.told_at = now = time.monotonic()
    limits = Limits(None, None, grace=4.0)
    assert list(look(room, now + 1.9, limits)) == []
    assert list(look(room, now + 2.1, limits)) == [Deaf(held)]
    held.is_signalled = True
    assert list(look(room, now + 2.1, limits)) == []
    assert list(look(room, now + 4.1, limits)) == [Defiant(0, held)]
