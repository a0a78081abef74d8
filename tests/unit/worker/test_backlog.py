"""Who gets what waits: whoever holds the fewest, in the order in which it came, and nobody more than they may."""

import selectors
from collections.abc import Iterator

import pytest

from stem.worker.backlog import Backlog
from stem.worker.brood import Brood
from stem.worker.nursery import Nursery
from stem.worker.room import AHEAD_MOST, Pace, Room
from stem.worker.wire import Word
from unit.worker.rooms import MakeRoom, a_held


class Nobody:
    """A parent that is told nothing here."""

    def heed(self, room: Room, word: Word) -> None: ...

    def died(self, room: Room, exit_code: int) -> None: ...

    def recycled(self, room: Room, reason: str) -> None: ...

    def failed(self, sentence: str) -> None: ...


@pytest.fixture
def brood() -> Iterator[Brood]:
    with selectors.DefaultSelector() as selector:
        yield Brood(Nobody(), selector, no_nursery, concurrency=2, async_concurrency=3, lane_concurrency=3)


def no_nursery() -> Nursery:
    raise AssertionError("nobody is born here")


def a_pace() -> Pace:
    """All known to be quick, by these names."""
    pace = Pace()
    for name in ("it", "other"):
        pace.learn(name, 0.0)
    return pace


def furnish(brood: Brood, *rooms: Room) -> None:
    brood.rooms.update((room.child.token, room) for room in rooms)


def test_alike_ones_go_by_turns_to_whoever_holds_the_fewest(brood: Brood, make_room: MakeRoom) -> None:
    (one, first), (two, second) = make_room(), make_room()
    furnish(brood, one, two)
    backlog, helds = Backlog(brood, a_pace()), [a_held() for _ in range(5)]
    backlog.put(helds)
    assert backlog.hand_out()
    assert [first.receive(), second.receive(), first.receive(), second.receive(), first.receive()] == [
        held.number for held in helds
    ]
    late = [a_held() for _ in range(2)]
    two.assigned.clear()
    backlog.put(late)
    assert backlog.hand_out()
    assert list(two.assigned.values()) == late
    assert not backlog.hand_out()


def test_what_nobody_may_take_waits_in_its_order(brood: Brood, make_room: MakeRoom) -> None:
    (one, _), (last, _) = make_room(), make_room(most=2)
    furnish(brood, one, last)
    backlog, helds = Backlog(brood, a_pace()), [a_held(name=name) for name in ("it", "other") for _ in range(80)]
    backlog.put(helds)
    assert backlog.hand_out()
    assert len(one.assigned) == 1 + AHEAD_MOST
    assert len(last.assigned) == 2
    assert backlog.first is helds[3 + AHEAD_MOST]
    assert backlog.take_isolated() == helds[3 + AHEAD_MOST :]


def test_one_of_an_unknown_pace_gets_an_isolate_of_its_own(brood: Brood, make_room: MakeRoom) -> None:
    (one, _), (two, _) = make_room(), make_room()
    furnish(brood, one, two)
    backlog, helds = Backlog(brood, a_pace()), [a_held(name=name) for name in ("it", "new", "new", "it")]
    backlog.put(helds)
    backlog.hand_out()
    assert list(one.assigned.values()) == helds[:1]
    assert list(two.assigned.values()) == helds[1:2]
    assert backlog.first is helds[2]


def test_coroutines_share_an_isolate_and_what_came_between_waits_for_another(brood: Brood, make_room: MakeRoom) -> None:
    (one, _), (two, _) = make_room(slots=3), make_room(slots=3)
    furnish(brood, one, two)
    backlog = Backlog(brood, a_pace())
    helds = [held for _ in range(2) for held in (a_held(name="other", is_async=True), a_held())]
    backlog.put(helds)
    backlog.hand_out()
    assert [list(room.assigned.values()) for room in (one, two)] == [[helds[0], helds[2]], [helds[1], helds[3]]]


def test_what_comes_back_goes_ahead_of_what_was_claimed_later(brood: Brood) -> None:
    backlog, early, late = Backlog(brood, a_pace()), [a_held(), a_held()], [a_held(), a_held()]
    backlog.put(late)
    backlog.put_back(early)
    assert backlog.take_out(lambda held: held is late[0]) == late[:1]
    assert backlog.take_isolated() == [*early, late[1]]
