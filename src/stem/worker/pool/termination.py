"""Stop tasks early: by an exception, then by a signal, then by a kill. Used by the pool's thread only."""

import logging
import time
from collections.abc import Callable
from signal import SIGKILL, SIGTERM

from stem.core.outcome import Interrupted, Outcome, Revoked, TimedOut
from stem.worker.isolate.status_block import REVOKED, SOFT_LIMIT, STOPPED
from stem.worker.pool.backlog import Backlog
from stem.worker.pool.in_flight import InFlightTask
from stem.worker.pool.isolate_state import IsolateState
from stem.worker.pool.isolates import Isolates
from stem.worker.pool.watchdog import GraceExpired, HardLimitExceeded, SoftLimitExceeded, StopIgnored, Violation

log = logging.getLogger("stem.worker")

STUCK_SECONDS = 1.0  # from interrupting a task that shares its process, at its hard limit, to killing the process


class Terminator:
    """Ends tasks in the mildest way that works."""

    def __init__(
        self, isolates: Isolates, backlog: Backlog, end: Callable[[InFlightTask, Outcome, float | None], None]
    ) -> None:
        self._isolates = isolates
        self._backlog = backlog
        self._end = end  # for tasks that no isolate will report

    def revoke(self, task: InFlightTask, reason: str, *, terminate: bool, signal_number: int) -> str:
        """Cancel a task that has not started; ask a running one to stop if `terminate`. Returns what was done."""
        if task.cleanup_outcome is not None:
            return "running"  # an engine is cleaning up after it
        isolate = self._isolate_of(task)
        if isolate is not None and isolate.slot_of(task) is None:
            self._backlog.put_back(isolate.take_back())
            isolate = self._isolate_of(task)
        if isolate is None:
            self._backlog.remove(task)
            self._end(task, Revoked(reason), None)
            return "cancelled"
        if not terminate:
            return "running"
        self._request_stop(isolate, task, Revoked(reason), signal_number)
        return "terminating"

    def stop_all(self, reason: str) -> None:
        """Ask all running tasks to stop and go back to their queues."""
        for isolate in list(self._isolates.by_token.values()):
            for _, task in list(isolate.running()):
                self._request_stop(isolate, task, Interrupted(reason))

    def act_on(self, isolate: IsolateState, violation: Violation) -> None:
        match violation:
            case HardLimitExceeded(slot, task, seconds):
                self._end_overdue(isolate, slot, task, TimedOut(seconds))
            case SoftLimitExceeded(slot, task):
                task.soft_limit_sent = True
                self._interrupt(isolate, slot, task, SOFT_LIMIT)
            case StopIgnored(task):
                self._signal(isolate, task)
            case GraceExpired(slot, task):
                self._kill(isolate, slot, task, task.stop_outcome or Interrupted("asked to stop"))

    def stop_lost(self, task: InFlightTask) -> None:
        """Stop a task whose lease is lost: its result would be refused."""
        isolate = self._isolate_of(task)
        if isolate is None:
            return
        slot = isolate.slot_of(task)
        if slot is None:
            self._backlog.put_back(isolate.take_back())
        elif isolate.is_shared:
            self._interrupt(isolate, slot, task, STOPPED)
        else:
            self._kill(isolate, slot, task, Interrupted("the lease was lost"))

    def kill_all(self, reason: str) -> None:
        """Kill all isolates that run tasks; the tasks go back to their queues."""
        for isolate in list(self._isolates.by_token.values()):
            if any(task.cleanup_outcome is not None for task in isolate.assigned.values()):
                continue  # it cleans up after a crash, and is waited for
            for task in isolate.assigned.values():
                task.stop_outcome = task.stop_outcome or Interrupted(reason)
            if isolate.assigned and not self._is_in_process(isolate):
                self._isolates.kill(isolate)
            else:
                for slot, task in list(isolate.running()):
                    self._abandon_thread(isolate, slot, task, Interrupted(reason))

    def _end_overdue(self, isolate: IsolateState, slot: int, task: InFlightTask, outcome: TimedOut) -> None:
        """Interrupt a task that shares its process first: a coroutine that awaits ends at once. Kill the process only if the task
        or its event loop is stuck."""
        if isolate.is_shared and not self._is_in_process(isolate):
            if not task.stop_requested_at:
                self._request_stop(isolate, task, outcome)
            if time.monotonic() < task.stop_requested_at + STUCK_SECONDS:
                return
        self._kill(isolate, slot, task, outcome)

    def _request_stop(
        self, isolate: IsolateState, task: InFlightTask, stop_outcome: Outcome, signal_number: int = SIGTERM
    ) -> None:
        """Raise an exception in the task; the watchdog sees whether it helps."""
        if task.stop_requested_at or task.cleanup_outcome is not None:
            return
        task.stop_outcome, task.stop_requested_at, task.signal = stop_outcome, time.monotonic(), signal_number
        slot = isolate.slot_of(task)
        if slot is not None:
            self._interrupt(isolate, slot, task, REVOKED if isinstance(stop_outcome, Revoked) else STOPPED)
            if signal_number == SIGKILL and not isolate.is_shared:
                self._kill(isolate, slot, task, stop_outcome)

    def _signal(self, isolate: IsolateState, task: InFlightTask) -> None:
        """Signal the process, if the task runs in it alone."""
        task.stop_signal_sent = True
        self._backlog.put_back(isolate.take_back())
        if not isolate.is_shared and isolate.slot_of(task) is not None:
            isolate.handle.signal(task.signal)

    def _kill(self, isolate: IsolateState, slot: int, task: InFlightTask, outcome: Outcome) -> None:
        """Kill the isolate if it still runs this task: with its inbox empty it cannot start another one meanwhile."""
        self._backlog.put_back(isolate.take_back())
        if isolate.slot_of(task) != slot or isolate.is_killed:
            return
        task.stop_outcome = outcome
        if self._is_in_process(isolate):
            self._abandon_thread(isolate, slot, task, outcome)
            return
        others = sum(1 for _, other in isolate.running() if other is not task)
        log.info(
            "task.killed id=%s isolate=%d outcome=%s%s",
            task.lease.id,
            isolate.handle.pid,
            type(outcome).__name__,
            f" neighbours={others}: they start again, no attempt spent" if others else "",
        )
        self._isolates.kill(isolate)

    def _interrupt(self, isolate: IsolateState, slot: int, task: InFlightTask, why: int) -> None:
        isolate.handle.status.interrupt(slot, task.number, why)
        self._isolates.interrupt(isolate)

    def _abandon_thread(self, isolate: IsolateState, slot: int, task: InFlightTask, outcome: Outcome) -> None:
        """A thread of this process cannot be killed: interrupt it and ignore its result."""
        self._interrupt(isolate, slot, task, STOPPED)
        del isolate.assigned[task.number]
        self._end(task, outcome, time.monotonic() - isolate.handle.status.times(slot)[0])

    def _is_in_process(self, isolate: IsolateState) -> bool:
        """Whether its tasks run in threads of this process."""
        return isolate.handle.is_inline and self._isolates.runs_in_process

    def _isolate_of(self, task: InFlightTask) -> IsolateState | None:
        return next((isolate for isolate in self._isolates.by_token.values() if task.number in isolate.assigned), None)
