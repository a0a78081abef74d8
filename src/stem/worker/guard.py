"""Looks at what runs: past a limit, longer than a moment, with something to tell. Says so; the pool acts on it."""

from collections.abc import Iterator
from dataclasses import dataclass

from stem.core.delivery import Report
from stem.core.settle import MAX_DEATHS
from stem.worker.held import Held
from stem.worker.room import Room

LOOK_SECONDS = 0.05
BEGUN_SECONDS = 0.1  # a run that takes longer is said to run before it ends
ENGINE_SECONDS = 5.0  # an engine that was told to stop has this long to end what runs elsewhere
LONG_SECONDS = 0.05  # a run that takes longer gives back what waits behind it


@dataclass(frozen=True, slots=True)
class Limits:
    """What the worker says for tasks that say nothing."""

    soft: float | None
    hard: float | None
    grace: float = 5.0  # from being told to stop to being killed
    max_deaths: int = MAX_DEATHS  # of isolates that a task has felled


@dataclass(frozen=True, slots=True)
class Overdue:
    slot: int
    held: Held
    limit_seconds: float


@dataclass(frozen=True, slots=True)
class SoftlyOverdue:
    slot: int
    held: Held


@dataclass(frozen=True, slots=True)
class Deaf:
    """It was told to stop, and half of its grace is over."""

    held: Held


@dataclass(frozen=True, slots=True)
class Defiant:
    """All of it is."""

    slot: int
    held: Held


@dataclass(frozen=True, slots=True)
class Begun:
    held: Held


@dataclass(frozen=True, slots=True)
class Told:
    held: Held
    report: Report


@dataclass(frozen=True, slots=True)
class Spoilt:
    """Its isolate cannot say any more what it does: a task has written into its line or its memory."""


@dataclass(frozen=True, slots=True)
class InTheWay:
    """It runs on while others wait behind it."""


Offence = Overdue | SoftlyOverdue | Deaf | Defiant  # something is to be stopped
Finding = Offence | Begun | Told | InTheWay | Spoilt


def look(room: Room, now: float, limits: Limits) -> Iterator[Finding]:
    cell = room.child.cell
    if room.is_silent():
        yield Spoilt()
        return
    for slot, held in list(room.running()):
        try:
            started_at, soft_at, hard_at = cell.times(slot)
        except ValueError:
            yield Spoilt()
            return
        if cell.running(slot) != held.number:
            continue  # it has moved on while we read
        hard_at = hard_at or (started_at + limits.hard if limits.hard is not None else 0.0)
        soft_at = soft_at or (started_at + limits.soft if limits.soft is not None else 0.0)
        if hard_at and now >= hard_at:
            yield Overdue(slot, held, round(hard_at - started_at, 3))
        elif soft_at and now >= soft_at and not held.is_soft:
            yield SoftlyOverdue(slot, held)
        grace = limits.grace + (ENGINE_SECONDS if held.has_engine else 0.0)
        if held.told_at and now >= held.told_at + grace:
            yield Defiant(slot, held)
        elif held.told_at and not held.is_signalled and now >= held.told_at + grace - limits.grace / 2:
            yield Deaf(held)
        if cell.beats(slot) != held.beats and (said := room.progress(slot, held)) is not None:
            held.is_begun, held.began_at = True, started_at  # a report says so, too
            yield Told(held, Report(held.lease, said or None))
        elif not held.is_begun and now - started_at > BEGUN_SECONDS:
            held.is_begun, held.began_at = True, started_at
            yield Begun(held)
        if not room.is_shared and len(room.assigned) > 1 and now - started_at > LONG_SECONDS:
            yield InTheWay()
