"""Decide what becomes of the tasks of an isolate that has exited."""

import random
import time
from dataclasses import dataclass, field
from signal import SIGKILL

import msgspec

from stem.client.task.policy import policy_for
from stem.core.decisions.retry import Exponential
from stem.core.decisions.settle import Policy, settle
from stem.core.errors import EnvelopeUnreadable
from stem.core.outcome import Died, Interrupted, Outcome, Settlement
from stem.runtime.process import oom_kills
from stem.worker.isolate.status_block import StatusBlock
from stem.worker.pool.in_flight import InFlightTask
from stem.worker.pool.isolate_state import IsolateState

MAX_CRASHES_UNSTARTED = 2


@dataclass(slots=True)
class CrashResult:
    """`unstarted` tasks go to other isolates; each `ended` task has an outcome and its run time."""

    unstarted: list[InFlightTask]
    ended: list[tuple[InFlightTask, Outcome, float]] = field(default_factory=list)


def is_out_of_memory(exit_code: int, *, by_us: bool, kills_before: int, kills_now: int) -> bool:
    """Whether the kernel killed it for want of memory: by a SIGKILL that was not ours, while its count of OOM kills grew."""
    return exit_code == -SIGKILL and not by_us and kills_now > kills_before


class OomKills:
    """Follows the system's count of processes killed for want of memory."""

    def __init__(self) -> None:
        self._count = oom_kills()

    def has_killed(self, isolate: IsolateState, exit_code: int) -> bool:
        before, self._count = self._count, oom_kills()
        return is_out_of_memory(exit_code, by_us=isolate.is_killed, kills_before=before, kills_now=self._count)


def after_crash(isolate: IsolateState, exit_code: int, *, out_of_memory: bool) -> CrashResult:
    """Sort the isolate's tasks. A task that was stopped on purpose keeps that outcome; if that killed the isolate, its
    neighbours were interrupted. Otherwise everything that ran has died, and which task caused it is unknown."""
    result, status = (
        CrashResult(isolate.take_back()),
        isolate.handle.status,
    )  # unread tasks have not started, whatever the status block says
    # Includes runs that are over: we never received their ending, so they must not run again as if unstarted.
    started = {status.begun(slot): slot for slot in range(status.slots)}
    for number, task in isolate.assigned.items():
        if number not in started and task.crashes_unstarted < MAX_CRASHES_UNSTARTED and not isolate.is_corrupt:
            task.crashes_unstarted += 1  # bounded: a task could forge the status block
            result.unstarted.append(task)
            continue
        outcome = task.stop_outcome
        if outcome is None and isolate.is_killed:
            outcome = Interrupted("its isolate was killed because of another task")
        result.ended.append(
            (task, outcome or Died(exit_code, out_of_memory), _ran_seconds(status, started.get(number)))
        )
    isolate.assigned.clear()
    return result


def _ran_seconds(status: StatusBlock, slot: int | None) -> float:
    try:
        return max(0.0, time.monotonic() - status.times(slot)[0]) if slot is not None else 0.0
    except ValueError:
        return 0.0


def settlement_for(task: InFlightTask, outcome: Outcome, max_deaths: int) -> Settlement:
    """Settle a task that its isolate could not settle. A retry strategy that is a function lives in the isolate, so the default
    delays apply instead."""
    delivery, retry = task.delivery, task.facts.retry if task.facts is not None else None
    try:
        policy = policy_for(delivery.envelope, retry or Exponential())
    except EnvelopeUnreadable:
        policy = Policy()
    policy = msgspec.structs.replace(policy, max_deaths=max_deaths)
    random_fraction = random.random()  # noqa: S311 - no secret
    return settle(outcome, policy, attempt=delivery.attempt, deaths=delivery.deaths, random_fraction=random_fraction)
