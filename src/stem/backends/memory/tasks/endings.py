"""End tasks in memory, and carry the consequences to the tasks that wait for them."""

from collections.abc import Sequence

import msgspec

from stem.backends.memory.state import MemoryState, MemoryTask
from stem.core import envelope as envelopes
from stem.core.lifecycle import TERMINAL, EventKind, State
from stem.core.prerequisites import (
    CASCADE_LIMIT,
    NOT_NEEDED,
    Effect,
    OnFailure,
    effect,
    first_cause,
    prerequisite_error,
)
from stem.core.record import TaskError

_NULL = msgspec.Raw(b"null")


class Endings:
    """Ends tasks. What their ends mean for others is carried out by `carry_on`, once in each call of the broker."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def end(self, task: MemoryTask, state: State, now: float, *, error: TaskError | None = None) -> None:
        self._state.leased.pop(task.id, None)
        task.leased_until = task.awaited_event = None
        task.place = 0
        task.state, task.error, task.finished_at, task.updated_at = state, error, now, now
        if state is not State.FAILED and not task.is_revivable:
            task.body = b""
        if task.unique_key is not None:
            holder, held_until, _ = self._state.uniques.get(task.unique_key, ("", None, 0.0))
            # A key held for some time outlives a task that was run, not one whose work was never done.
            if holder == task.id and (held_until is None or state is State.CANCELLED):
                del self._state.uniques[task.unique_key]
        if task.dependents:
            self._state.cascade.append(task.id)

    def cancel(self, task: MemoryTask, reason: str, now: float) -> None:
        task.pending.clear()  # never to be revived
        self.end(task, State.CANCELLED, now, error=TaskError("Cancelled", reason))
        self._state.tell(EventKind.REVOKED, task, now, {"reason": reason})

    def block(self, task: MemoryTask, after: Sequence[str], now: float, *, is_told: bool = False) -> bool:
        """Let a task wait for others; False if it need not and is still to be queued."""
        failed = self._count(task, after)
        runs_only_on_failure = task.on_failure is OnFailure.ONLY and bool(after)
        if failed is not None and not runs_only_on_failure:
            self._cancel_for(task, failed, now)
        elif failed is None and task.pending:
            if not is_told:
                self._state.tell(EventKind.BLOCKED, task, now, {"missing": len(task.pending)})
        elif failed is None and runs_only_on_failure:
            self.cancel(task, NOT_NEEDED, now)
        elif task.ends_when_released:
            self._join(task, now)
        else:
            task.pending.clear()
            return False
        return True

    def carry_on(self, now: float) -> None:
        """Carry the ends of tasks to those that wait for them; cancellations beyond the limit are left for `catch_up`."""
        left = CASCADE_LIMIT
        while self._state.cascade:
            ended = self._state.tasks.get(self._state.cascade.popleft())
            if ended is not None and ended.state in TERMINAL:
                left -= self._carry(ended, now, left)

    def catch_up(self, now: float) -> None:
        """Go on with what earlier calls have left."""
        self._state.cascade.extend(self._state.unfinished)
        self._state.unfinished.clear()
        self.carry_on(now)

    def _count(self, task: MemoryTask, after: Sequence[str]) -> MemoryTask | None:
        """Note what the task waits for; returns the first one that has failed already, unless a failure just counts."""
        failed = None
        for prerequisite in (self._state.tasks[id] for id in dict.fromkeys(after)):
            prerequisite.dependents.append(task.id)
            if prerequisite.state in TERMINAL:
                means = effect(task.on_failure, has_succeeded=prerequisite.has_succeeded)
                if means is Effect.COUNT:
                    continue
                failed = failed or prerequisite
            task.pending.add(prerequisite.id)
        return failed

    def _carry(self, ended: MemoryTask, now: float, limit: int) -> int:
        """Apply the end of a task to its dependents; returns how many were cancelled for it, at most `limit`."""
        cancelled = 0
        is_finished = True
        for task in [self._state.tasks[id] for id in ended.dependents if id in self._state.tasks]:
            if ended.id not in task.pending:
                continue
            match effect(task.on_failure, has_succeeded=ended.has_succeeded):
                case Effect.COUNT:
                    task.pending.discard(ended.id)
                    if not task.pending:
                        self._release(task, now, has_failed=not ended.has_succeeded)
                case Effect.RELEASE:
                    task.pending.clear()
                    self._release(task, now, has_failed=True)
                case Effect.CANCEL:
                    if task.state in TERMINAL:
                        continue
                    is_finished = cancelled < limit
                    if is_finished:
                        self._cancel_for(task, ended, now)
                        cancelled += 1
        if not is_finished:
            self._state.unfinished.append(ended.id)
        return cancelled

    def _release(self, task: MemoryTask, now: float, *, has_failed: bool) -> None:
        if task.on_failure is OnFailure.ONLY and not has_failed:
            self.cancel(task, NOT_NEEDED, now)
        elif task.ends_when_released:
            self._join(task, now)
        else:
            task.finished_at = task.error = None
            task.due_at = now + task.release_delay if task.release_delay is not None else task.due_at
            self._state.wait_again(task, now, task.due_at)
            self._state.tell(EventKind.RELEASED, task, now)

    def _join(self, task: MemoryTask, now: float) -> None:
        task.pending.clear()
        task.payload = envelopes.decode(task.body).args if task.is_join else _NULL
        self.end(task, State.SUCCEEDED, now)
        self._state.tell(EventKind.JOINED, task, now)

    def _cancel_for(self, task: MemoryTask, failed: MemoryTask, now: float) -> None:
        error = prerequisite_error(failed.id, failed.name, failed.state, failed.error)
        self.end(task, State.CANCELLED, now, error=error)
        self._state.tell(EventKind.REVOKED, task, now, {"reason": "prerequisite-failed", "cause": first_cause(error)})
