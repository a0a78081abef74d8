"""End or release a task that waited for others."""

from typing import Any

import msgspec

from stem.backends.sqlite.tasks.task_row import TaskRow
from stem.backends.sqlite.tasks.write_batch import WriteBatch
from stem.core.lifecycle import State
from stem.core.prerequisites import NOT_NEEDED, OnFailure, first_cause, prerequisite_error
from stem.core.record import TaskError

Facts = dict[str, Any]  # the tenant of a task that is not stored yet

_NULL = msgspec.Raw(b"null")


def release(
    batch: WriteBatch, task: TaskRow, due_at: float, *, on_failure: str, has_failed: bool, args: msgspec.Raw | None
) -> None:
    """What becomes of a task when nothing is missing any more."""
    batch.add["blocked_delete"]((task.seq,))
    if on_failure == OnFailure.ONLY and not has_failed:
        cancel(batch, task, NOT_NEEDED)
    elif task.joins:
        join(batch, task, args)
    else:
        task.finished_at = task.error = None
        batch.wait_again(task, due_at)
        batch.tell("released", task, batch.now)


def join(batch: WriteBatch, task: TaskRow, args: msgspec.Raw | None, facts: Facts | None = None) -> None:
    """The value of a join is its arguments; that of a task which was blocked by its own run is null."""
    batch.succeed(task, args or _NULL)
    batch.tell("joined", task, batch.now, facts)


def cancel(batch: WriteBatch, task: TaskRow, reason: str, facts: Facts | None = None) -> None:
    batch.cancel(task, TaskError("Cancelled", reason))
    batch.tell("revoked", task, batch.now, {**(facts or {}), "reason": reason})


def cancel_for(
    batch: WriteBatch, task: TaskRow, failed: tuple[str, str, str, bytes | None], facts: Facts | None = None
) -> None:
    """Cancel a task for a failed prerequisite (id, name, state, error); it can be revived."""
    id, name, state, stored = failed
    known = None if stored is None else msgspec.json.decode(stored, type=TaskError)
    error = prerequisite_error(id, name, State(state), known)
    batch.cancel(task, error, is_revivable=True)
    told = {**(facts or {}), "reason": "prerequisite-failed", "cause": first_cause(error)}
    batch.tell("revoked", task, batch.now, told)
