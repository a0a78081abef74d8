"""What waits here for an isolate or for the lane, and who gets it: whoever holds the fewest. Part of the pool's thread."""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from heapq import heapify, heappop, heapreplace

from stem.worker import wire
from stem.worker.brood import Brood
from stem.worker.held import Held
from stem.worker.room import Pace, Room, capacity, choose


class Backlog:
    def __init__(self, brood: Brood, pace: Pace) -> None:
        self._brood = brood
        self._pace = pace
        self._isolated: deque[Held] = deque()
        self._inline: deque[Held] = deque()  # those that ask for the lane

    @property
    def first(self) -> Held | None:
        """The next to get an isolate."""
        return self._isolated[0] if self._isolated else None

    def put(self, helds: Iterable[Held]) -> None:
        for held in helds:
            self._line_of(held).append(held)

    def put_back(self, helds: list[Held]) -> None:
        """Ahead of what was claimed later."""
        for held in reversed(helds):
            self._line_of(held).appendleft(held)

    def remove(self, held: Held) -> None:
        with suppress(ValueError):
            self._line_of(held).remove(held)

    def take_out(self, is_meant: Callable[[Held], bool]) -> list[Held]:
        """All of which this is true."""
        found: list[Held] = []
        for line in (self._isolated, self._inline):
            meant = [held for held in line if is_meant(held)]
            if meant:
                left = [held for held in line if not is_meant(held)]
                line.clear()
                line.extend(left)
            found += meant
        return found

    def take_isolated(self) -> list[Held]:
        """All that waits for an isolate."""
        helds = list(self._isolated)
        self._isolated.clear()
        return helds

    def hand_out(self) -> bool:
        """True if anybody got anything."""
        waiting = len(self._isolated) + len(self._inline)
        if not waiting:
            return False
        if self._inline:
            lane = self._brood.lane()
            while self._inline and self._gives(self._inline, choose([lane], self._inline[0], self._pace)):
                pass
        if self._isolated:
            rooms = self._brood.isolates()
            while self._isolated and self._hand_out_next(rooms):
                pass
        return len(self._isolated) + len(self._inline) < waiting

    def _hand_out_next(self, rooms: list[Room]) -> bool:
        """The next, and all of its kind behind it; False once nobody may take more."""
        first = self._isolated[0]
        if first.is_async or len(self._isolated) == 1:
            return self._gives(self._isolated, choose(rooms, first, self._pace))
        return self._hand_out_alike(rooms, first)

    def _hand_out_alike(self, rooms: list[Room], first: Held) -> bool:
        """Who may take how many is reckoned once for all of a name, because this is done for every task."""
        line, name = self._isolated, first.delivery.name
        # By place, too, so that rooms are never compared.
        levels = [
            (len(room.assigned), place, most, room)
            for place, room in enumerate(rooms)
            if (most := capacity(room, first, self._pace)) > len(room.assigned)
        ]
        heapify(levels)
        while levels:
            count, place, most, room = levels[0]
            if not self._gives(line, room):
                return False
            if not line or line[0].delivery.name != name:
                return True
            if count + 1 < most:
                heapreplace(levels, (count + 1, place, most, room))
            else:
                heappop(levels)
        return False

    def _gives(self, line: deque[Held], room: Room | None) -> bool:
        """The first of the line to the room; False if there is none that takes it."""
        if room is None:
            return False
        held = line[0]
        packet = wire.run_of if held.fate is None else wire.rites_of
        if not room.child.send(packet(held.number, held.delivery)):
            return False
        if not room.assigned:
            room.is_shared = held.is_async or room.child.is_lane
            room.holds_suspect = held.delivery.deaths > 0
        room.assigned[held.number] = held
        line.popleft()
        return True

    def _line_of(self, held: Held) -> deque[Held]:
        return self._inline if held.is_inline or self._brood.has_own_lane else self._isolated
