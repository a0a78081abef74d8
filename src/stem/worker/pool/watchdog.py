"""Look at running tasks at intervals: limits, requests to stop, starts, progress. Reports findings; the pool acts on them."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from stem.core.decisions.settle import MAX_DEATHS
from stem.core.delivery import Report
from stem.worker.pool.in_flight import InFlightTask
from stem.worker.pool.isolate_state import IsolateState
from stem.worker.pool.isolates import Isolates

LOOK_SECONDS = 0.05
STARTED_SECONDS = 0.1  # the start of a run that takes longer is reported before its end
ENGINE_SECONDS = 5.0  # an engine that is asked to stop has this long to end what runs elsewhere
LONG_SECONDS = 0.05  # a run that takes longer gives back what waits behind it


@dataclass(frozen=True, slots=True)
class Limits:
    """The worker's limits, for tasks that have none of their own."""

    soft: float | None
    hard: float | None
    grace: float = 5.0  # from the request to stop to the kill
    max_deaths: int = MAX_DEATHS  # isolates that a task may crash


@dataclass(frozen=True, slots=True)
class HardLimitExceeded:
    slot: int
    task: InFlightTask
    limit_seconds: float


@dataclass(frozen=True, slots=True)
class SoftLimitExceeded:
    slot: int
    task: InFlightTask


@dataclass(frozen=True, slots=True)
class StopIgnored:
    """Half of the grace period after the request to stop is over."""

    task: InFlightTask


@dataclass(frozen=True, slots=True)
class GraceExpired:
    """All of the grace period is over."""

    slot: int
    task: InFlightTask


@dataclass(frozen=True, slots=True)
class RunStarted:
    task: InFlightTask


@dataclass(frozen=True, slots=True)
class ProgressMade:
    task: InFlightTask
    report: Report


@dataclass(frozen=True, slots=True)
class StateCorrupted:
    """The isolate can no longer say what it does: a task has written into its stream or its status block."""


@dataclass(frozen=True, slots=True)
class PrefetchBlocked:
    """A long run blocks the tasks that wait behind it."""


Violation = HardLimitExceeded | SoftLimitExceeded | StopIgnored | GraceExpired  # a task is to be stopped
Finding = Violation | RunStarted | ProgressMade | PrefetchBlocked | StateCorrupted


class Watchdog:
    """Looks every LOOK_SECONDS while tasks run, and not at all while none do."""

    def __init__(self, isolates: Isolates, limits: Limits) -> None:
        self._isolates = isolates
        self._limits = limits
        self._look_at = 0.0  # 0: nothing runs

    def wake(self) -> None:
        """Tasks have been handed out."""
        self._look_at = self._look_at or time.monotonic() + LOOK_SECONDS

    def timeout(self) -> float | None:
        """Seconds until the next look; None while nothing runs."""
        return max(0.0, self._look_at - time.monotonic()) if self._look_at else None

    def is_due(self, now: float) -> bool:
        return self._look_at != 0.0 and now >= self._look_at

    def findings(self, now: float) -> Iterator[tuple[IsolateState, Finding]]:
        """Each finding is acted on before the next is looked for."""
        for isolate in list(self._isolates.by_token.values()):
            for finding in look(isolate, now, self._limits) if isolate.assigned else ():
                yield isolate, finding

    def schedule(self, now: float) -> None:
        """Set the time of the next look."""
        is_busy = any(isolate.assigned for isolate in self._isolates.by_token.values())
        self._look_at = now + LOOK_SECONDS if is_busy else 0.0


def look(isolate: IsolateState, now: float, limits: Limits) -> Iterator[Finding]:
    """Yield what is to be reported or done about the runs of one isolate."""
    status = isolate.handle.status
    if isolate.is_unresponsive():
        yield StateCorrupted()
        return
    for slot, task in list(isolate.running()):
        try:
            started_at, soft_at, hard_at = status.times(slot)
        except ValueError:
            yield StateCorrupted()
            return
        if status.running(slot) != task.number:
            continue  # it has moved on while we read
        yield from _limits_exceeded(slot, task, now, _deadlines(started_at, soft_at, hard_at, limits))
        yield from _stop_overdue(slot, task, now, limits)
        if status.beats(slot) != task.beats and (progress := isolate.progress(slot, task)) is not None:
            task.start_reported, task.started_at = True, started_at  # a report implies the start
            yield ProgressMade(task, Report(task.lease, progress or None))
        elif not task.start_reported and now - started_at > STARTED_SECONDS:
            task.start_reported, task.started_at = True, started_at
            yield RunStarted(task)
        if not isolate.is_shared and len(isolate.assigned) > 1 and now - started_at > LONG_SECONDS:
            yield PrefetchBlocked()


def _deadlines(started_at: float, soft_at: float, hard_at: float, limits: Limits) -> tuple[float, float, float]:
    """The task's own deadlines, else the worker's; 0 for none."""
    soft_at = soft_at or (started_at + limits.soft if limits.soft is not None else 0.0)
    hard_at = hard_at or (started_at + limits.hard if limits.hard is not None else 0.0)
    return started_at, soft_at, hard_at


def _limits_exceeded(
    slot: int, task: InFlightTask, now: float, deadlines: tuple[float, float, float]
) -> Iterator[Violation]:
    started_at, soft_at, hard_at = deadlines
    if hard_at and now >= hard_at:
        yield HardLimitExceeded(slot, task, round(hard_at - started_at, 3))
    elif soft_at and now >= soft_at and not task.soft_limit_sent:
        yield SoftLimitExceeded(slot, task)


def _stop_overdue(slot: int, task: InFlightTask, now: float, limits: Limits) -> Iterator[Violation]:
    if not task.stop_requested_at:
        return
    grace = limits.grace + (ENGINE_SECONDS if task.has_engine else 0.0)
    if now >= task.stop_requested_at + grace:
        yield GraceExpired(slot, task)
    elif not task.stop_signal_sent and now >= task.stop_requested_at + grace - limits.grace / 2:
        yield StopIgnored(task)
