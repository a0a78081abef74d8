"""What becomes of runs that no isolate tells of, most of them because theirs has ended."""

import random
import time
from dataclasses import dataclass, field
from signal import SIGKILL

import msgspec

from stem.client.policy import policy_for
from stem.core.errors import EnvelopeUnreadable
from stem.core.outcome import Died, Interrupted, Outcome, Settlement
from stem.core.retry import Exponential
from stem.core.settle import Policy, settle
from stem.worker.cell import Cell
from stem.worker.held import Held
from stem.worker.room import Room

MOST_UNTOUCHED = 2


@dataclass(slots=True)
class Estate:
    """`unstarted` have lost nothing and go to others; the rest have an outcome, and the time they ran."""

    unstarted: list[Held]
    ended: list[tuple[Held, Outcome, float]] = field(default_factory=list)


def is_out_of_memory(exit_code: int, *, by_us: bool, kills_before: int, kills_now: int) -> bool:
    """Whether the system ended it for want of memory: by a SIGKILL that was not ours, when its count of such has grown."""
    return exit_code == -SIGKILL and not by_us and kills_now > kills_before


def estate(room: Room, exit_code: int, *, out_of_memory: bool) -> Estate:
    """Whoever was ended on purpose has a verdict already. Where that ended the isolate, its neighbours were interrupted;
    else whatever ran has died with it, and it cannot be told which of several felled it."""
    left, cell = Estate(room.take_back()), room.child.cell  # what is in its inbox has not begun, whatever the cell says
    # Also one that is over: if we still have it, its ending was never heard, and it must not run again as if nothing were.
    begun = {cell.begun(slot): slot for slot in range(cell.slots)}
    for number, held in room.assigned.items():
        if number not in begun and held.untouched < MOST_UNTOUCHED and not room.is_spoilt:
            held.untouched += 1  # not for ever: a task that writes into the cell could hide there
            left.unstarted.append(held)
            continue
        outcome = held.verdict
        if outcome is None and room.is_doomed:
            outcome = Interrupted("its isolate was ended for another task's sake")
        left.ended.append((held, outcome or Died(exit_code, out_of_memory), _ran_seconds(cell, begun.get(number))))
    room.assigned.clear()
    return left


def _ran_seconds(cell: Cell, slot: int | None) -> float:
    try:
        return max(0.0, time.monotonic() - cell.times(slot)[0]) if slot is not None else 0.0
    except ValueError:
        return 0.0


def decided(held: Held, outcome: Outcome, max_deaths: int) -> Settlement:
    """A strategy that is a function stays with the code; for one that was killed the default's delays count."""
    delivery, retry = held.delivery, held.facts.retry if held.facts is not None else None
    try:
        policy = policy_for(delivery.envelope, retry or Exponential())
    except EnvelopeUnreadable:
        policy = Policy()
    policy = msgspec.structs.replace(policy, max_deaths=max_deaths)
    roll = random.random()  # noqa: S311 - no secret
    return settle(outcome, policy, attempt=delivery.attempt, deaths=delivery.deaths, roll=roll)
