"""Which isolate gets the next run, and how many runs it may hold ahead of the one it is at."""

from collections.abc import Iterable

from stem.worker.held import Held
from stem.worker.nursery import Child

# Enough to hide the way there and back; a run that turns out long gives the others back (see `guard`).
AHEAD_SECONDS = 0.01
AHEAD_MOST = 100
# How fast the mean follows: the last ten runs or so.
WEIGHT = 0.1


class Room:
    """The runs that one isolate holds, in the order in which it gets to them."""

    __slots__ = ("assigned", "child", "is_ready", "is_retired", "is_shared", "slots", "started")

    def __init__(self, child: Child, slots: int) -> None:
        self.child = child
        self.slots = slots  # coroutines, or threads of a lane, that may run at once
        self.assigned: dict[int, Held] = {}
        self.is_ready = False
        self.is_retired = False  # gets nothing more
        self.is_shared = False  # what it holds are coroutines, or it is a lane


class Pace:
    """How long runs of each task take, as far as is known."""

    def __init__(self) -> None:
        self._means: dict[str, float] = {}

    def learn(self, name: str, seconds: float) -> None:
        mean = self._means.get(name)
        self._means[name] = seconds if mean is None else mean + WEIGHT * (seconds - mean)

    def ahead(self, name: str) -> int:
        mean = self._means.get(name)
        return 0 if mean is None else min(AHEAD_MOST, int(AHEAD_SECONDS / (mean + 0.00005)))


def choose(rooms: Iterable[Room], held: Held, pace: Pace) -> Room | None:
    """The emptiest of those that may take it; None if none may."""
    best, fewest = None, 1 << 30
    for room in rooms:
        count = len(room.assigned)
        if count < fewest and room.is_ready and not room.is_retired and _may_take(room, held, count, pace):
            best, fewest = room, count
            if count == 0:
                break
    return best


def _may_take(room: Room, held: Held, count: int, pace: Pace) -> bool:
    if count == 0:
        return True
    if held.is_async or room.child.is_lane:
        # One that has been in a fallen isolate runs alone, so that it is known who fells them.
        return room.is_shared and count < room.slots and not held.delivery.deaths and not _holds_suspect(room)
    return not room.is_shared and count <= pace.ahead(held.delivery.name)


def _holds_suspect(room: Room) -> bool:
    return any(held.delivery.deaths for held in room.assigned.values())
