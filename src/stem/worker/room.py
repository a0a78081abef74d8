"""One isolate as the pool sees it: the runs it holds, which of them are under way, and whether it may take another."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from stem.worker.held import Held
from stem.worker.nursery import Child

# Enough to hide the way there and back; a run that turns out long gives the others back.
AHEAD_SECONDS = 0.01
AHEAD_MOST = 100
OVERHEAD_SECONDS = 0.00005
WEIGHT = 0.1  # how fast the mean follows: the last ten runs or so
# How often it is seen to hold a run that neither runs nor has ended: for a second. Not by the clock, for after a machine has
# stood still the isolate gets its time, too.
SILENT_LOOKS = 20


class Room:
    """`slots` is how many coroutines, or threads of a lane, may run in it at once."""

    __slots__ = (
        "_silent",
        "assigned",
        "child",
        "finished",
        "holds_suspect",
        "is_doomed",
        "is_leaving",
        "is_ready",
        "is_shared",
        "is_spoilt",
        "most",
        "slots",
    )

    def __init__(self, child: Child, slots: int, most: int | None = None) -> None:
        self.child = child
        self.slots = slots
        self.assigned: dict[int, Held] = {}  # by number, in the order in which it gets to them
        self.is_ready = False
        self.is_leaving = False  # gets nothing more, and ends when it is done
        self.is_doomed = False  # has been killed by us
        self.finished = 0  # runs
        self.most = most  # runs, before another takes its place
        self.is_shared = False  # what it holds are coroutines, or it is a lane
        self.holds_suspect = False  # what it holds has been in a fallen isolate, and runs alone
        self.is_spoilt = False  # what its cell says is not to be believed
        self._silent = (0, 0)  # a run of which cell and line say nothing, and how often that was seen

    @property
    def stays(self) -> bool:
        return not self.is_leaving and not self.is_doomed

    def running(self) -> Iterator[tuple[int, Held]]:
        """The slots in use and what runs in them."""
        cell = self.child.cell
        for slot in range(cell.slots if self.is_shared else 1):
            held = self.assigned.get(cell.running(slot))
            if held is not None:
                yield slot, held

    @property
    def beside(self) -> int:
        """How many of those it holds leave room for others: all that share a lane, or an isolate that is not full."""
        count = len(self.assigned) if self.is_shared else 0
        return count - 1 if count >= self.slots and not self.child.is_lane else count

    def slot_of(self, held: Held) -> int | None:
        return next((slot for slot, running in self.running() if running is held), None)

    def is_silent(self) -> bool:
        """Whether it has held a run for a while that neither runs nor has ended by its word. Asked at every look."""
        if self.is_shared:
            cell = self.child.cell
            over = [cell.over(slot) for slot in range(cell.slots)]
            number = next((number for number in over if number in self.assigned), 0)
        else:
            number = 0 if any(self.running()) else next(iter(self.assigned), 0)
        self._silent = (number, self._silent[1] + 1 if number == self._silent[0] else 0)
        return number != 0 and self._silent[1] >= SILENT_LOOKS

    def take_back(self) -> list[Held]:
        """What it had not begun, and now never will."""
        return [self.assigned.pop(number) for number in self.child.take_back() if number in self.assigned]

    def progress(self, slot: int, held: Held) -> dict[str, object] | None:
        """The latest word of a run that has spoken since it was last asked; {} for a bare heartbeat."""
        cell = self.child.cell
        found = cell.progress(slot)
        if found is None or cell.running(slot) != held.number:
            return None
        held.beats, said = found
        with suppress(msgspec.DecodeError, RecursionError):  # a task that writes into our memory harms itself
            return msgspec.json.decode(said, type=dict[str, object]) if said else {}
        return None


class Pace:
    """How long runs of each task take, as far as is known."""

    def __init__(self) -> None:
        self._means: dict[str, float] = {}

    def learn(self, name: str, seconds: float) -> None:
        mean = self._means.get(name)
        self._means[name] = seconds if mean is None else mean + WEIGHT * (seconds - mean)

    def ahead(self, name: str) -> int:
        mean = self._means.get(name)
        return 0 if mean is None else min(AHEAD_MOST, int(AHEAD_SECONDS / (mean + OVERHEAD_SECONDS)))


def choose(rooms: Iterable[Room], held: Held, pace: Pace) -> Room | None:
    """The emptiest of those that may take it; None if none may."""
    best, fewest = None, 1 << 30
    for room in rooms:
        count = len(room.assigned)
        if count < fewest and count < capacity(room, held, pace):
            best, fewest = room, count
            if count == 0:
                break
    return best


def capacity(room: Room, held: Held, pace: Pace) -> int:
    """How many it may hold, this one among them."""
    if not room.is_ready or not room.stays:
        return 0
    if room.child.is_lane:
        return _shared_capacity(room, held)
    most = _shared_capacity(room, held) if held.is_async else _prefetch(room, held, pace)
    return most if room.most is None else min(most, room.most - room.finished)


# One that has been in a fallen isolate runs alone, so that it is known who fells them.


def _shared_capacity(room: Room, held: Held) -> int:
    if not room.assigned:
        return 1
    return room.slots if room.is_shared and not held.delivery.deaths and not room.holds_suspect else 0


def _prefetch(room: Room, held: Held, pace: Pace) -> int:
    if room.assigned and (room.is_shared or room.holds_suspect or held.delivery.deaths):
        return 0
    return 1 if held.delivery.deaths else 1 + pace.ahead(held.delivery.name)
