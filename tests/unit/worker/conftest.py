"""Rooms for the tests of a worker's parts, closed when the test ends."""

from collections.abc import Iterator

import pytest

from stem.worker.room import Room
from unit.worker.rooms import Isolate, MakeRoom, a_room


@pytest.fixture
def make_room() -> Iterator[MakeRoom]:
    made: list[tuple[Room, Isolate]] = []

    def make(slots: int = 1, *, is_lane: bool = False, most: int | None = None) -> tuple[Room, Isolate]:
        made.append(a_room(slots, is_lane, most))
        return made[-1]

    yield make
    for room, other in made:
        room.child.close()
        other.close()
