"""Ends early what runs here: told by an exception, then by a signal, then killed. For the pool's thread only."""

import logging
import time
from collections.abc import Callable
from signal import SIGKILL, SIGTERM

from stem.core.outcome import Interrupted, Outcome, Revoked, TimedOut
from stem.worker.backlog import Backlog
from stem.worker.brood import Brood
from stem.worker.cell import REVOKED, SOFT_LIMIT
from stem.worker.guard import Deaf, Defiant, Offence, Overdue, SoftlyOverdue
from stem.worker.held import Held
from stem.worker.room import Room

log = logging.getLogger("stem.worker")

STUCK_SECONDS = 1.0  # from telling one that shares its process to stop, at its hard limit, to killing that process


class Stops:
    def __init__(self, brood: Brood, backlog: Backlog, end: Callable[[Held, Outcome, float | None], None]) -> None:
        self._brood = brood
        self._backlog = backlog
        self._end = end  # for what no isolate will tell of

    def revoke(self, held: Held, reason: str, *, terminate: bool, signal_number: int) -> str:
        """What has not begun is cancelled; what runs is told to stop if `terminate`. Says which."""
        if held.fate is not None:
            return "running"  # what is left of it, which is being ended anyway
        room = self._room_of(held)
        if room is not None and room.slot_of(held) is None:
            self._backlog.put_back(room.take_back())
            room = self._room_of(held)
        if room is None:
            self._backlog.remove(held)
            self._end(held, Revoked(reason), None)
            return "cancelled"
        if not terminate:
            return "running"
        self._tell(room, held, Revoked(reason), signal_number)
        return "terminating"

    def tell_all(self, reason: str) -> None:
        """What runs is told to stop, and goes back."""
        for room in list(self._brood.rooms.values()):
            for _, held in list(room.running()):
                self._tell(room, held, Interrupted(reason))

    def act_on(self, room: Room, offence: Offence) -> None:
        match offence:
            case Overdue(slot, held, seconds):
                self._end_overdue(room, slot, held, TimedOut(seconds))
            case SoftlyOverdue(slot, held):
                held.is_soft = True
                self._interrupt(room, slot, held, SOFT_LIMIT)
            case Deaf(held):
                self._signal(room, held)
            case Defiant(slot, held):
                self._kill(room, slot, held, held.verdict or Interrupted("told to stop"))

    def drop(self, held: Held) -> None:
        """Its lease is lost: if it runs, it does so for nobody."""
        room = self._room_of(held)
        if room is None:
            return
        slot = room.slot_of(held)
        if slot is None:
            self._backlog.put_back(room.take_back())
        elif room.is_shared:
            self._interrupt(room, slot, held, REVOKED)
        else:
            self._kill(room, slot, held, Interrupted("the lease was lost"))

    def kill_all(self, reason: str) -> None:
        """What runs goes back."""
        for room in list(self._brood.rooms.values()):
            if any(held.fate is not None for held in room.assigned.values()):
                continue  # it clears up after one that was ended, and is waited for
            for held in room.assigned.values():
                held.verdict = held.verdict or Interrupted(reason)
            if room.assigned and not self._is_own_lane(room):
                self._brood.kill(room)
            else:
                for slot, held in list(room.running()):
                    self._abandon(room, slot, held, Interrupted(reason))

    def _end_overdue(self, room: Room, slot: int, held: Held, outcome: TimedOut) -> None:
        """One that shares its process is told to stop first, for the others' sake. A coroutine that waits ends at once; only
        if it does not, because it or its event loop is stuck, the process is killed."""
        if room.is_shared and not self._is_own_lane(room):
            if not held.told_at:
                self._tell(room, held, outcome)
            if time.monotonic() < held.told_at + STUCK_SECONDS:
                return
        self._kill(room, slot, held, outcome)

    def _tell(self, room: Room, held: Held, verdict: Outcome, signal_number: int = SIGTERM) -> None:
        """By an exception first; the guard sees to the rest."""
        if held.told_at or held.fate is not None:
            return
        held.verdict, held.told_at, held.signal = verdict, time.monotonic(), signal_number
        slot = room.slot_of(held)
        if slot is not None:
            self._interrupt(room, slot, held, REVOKED)
            if signal_number == SIGKILL and not room.is_shared:
                self._kill(room, slot, held, verdict)

    def _signal(self, room: Room, held: Held) -> None:
        """Only where the process is the task's alone, and still at it."""
        held.is_signalled = True
        self._backlog.put_back(room.take_back())
        if not room.is_shared and room.slot_of(held) is not None:
            room.child.signal(held.signal)

    def _kill(self, room: Room, slot: int, held: Held, outcome: Outcome) -> None:
        """Kill the isolate if it is still at this run: with its inbox empty it cannot get to another one meanwhile."""
        self._backlog.put_back(room.take_back())
        if room.slot_of(held) != slot or room.is_doomed:
            return
        held.verdict = outcome
        if self._is_own_lane(room):
            self._abandon(room, slot, held, outcome)
            return
        others = sum(1 for _, other in room.running() if other is not held)
        log.info(
            "task.killed id=%s isolate=%d outcome=%s%s",
            held.lease.id,
            room.child.pid,
            type(outcome).__name__,
            f" neighbours={others}: they start again, no attempt spent" if others else "",
        )
        self._brood.kill(room)

    def _interrupt(self, room: Room, slot: int, held: Held, why: int) -> None:
        room.child.cell.interrupt(slot, held.number, why)
        self._brood.interrupt(room)

    def _abandon(self, room: Room, slot: int, held: Held, outcome: Outcome) -> None:
        """A thread of this very process cannot be killed: it is told to end, and what it brings is ignored."""
        self._interrupt(room, slot, held, REVOKED)
        del room.assigned[held.number]
        self._end(held, outcome, time.monotonic() - room.child.cell.times(slot)[0])

    def _is_own_lane(self, room: Room) -> bool:
        """Whether what it holds runs in threads of this very process."""
        return room.child.is_lane and self._brood.has_own_lane

    def _room_of(self, held: Held) -> Room | None:
        return next((room for room in self._brood.rooms.values() if held.number in room.assigned), None)
