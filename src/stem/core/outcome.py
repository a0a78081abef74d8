"""Outcomes of an attempt (facts) and settlements of the task (decisions)."""

from typing import Any

import msgspec

from stem.core.record import TaskError


class Returned(msgspec.Struct, frozen=True, tag=True):
    payload: msgspec.Raw


class Raised(msgspec.Struct, frozen=True, tag=True):
    error: TaskError
    retry_after_seconds: float | None = None  # from ctx.retry(delay=…)
    max_retries: int | None = None  # from ctx.retry(max_retries=…); None: the policy's


class TimedOut(msgspec.Struct, frozen=True, tag=True):
    limit_seconds: float
    stack: str = ""


class Died(msgspec.Struct, frozen=True, tag=True):
    """The isolate ended without a result. `exit_code` is negative for a signal, as the operating system says it."""

    exit_code: int
    out_of_memory: bool = False


class Revoked(msgspec.Struct, frozen=True, tag=True):
    reason: str


class Interrupted(msgspec.Struct, frozen=True, tag=True):
    """Stem cut the attempt off (shutdown, pause, recycle); the task is not to blame."""

    reason: str


class Suspended(msgspec.Struct, frozen=True, tag=True):
    """The task sleeps, or waits for an event; it begins again then and skips the steps that it has recorded."""

    delay_seconds: float
    event: str | None
    reason: str


class Replaced(msgspec.Struct, frozen=True, tag=True):
    """The task put others in its place; `by` is the one whose value becomes its own."""

    by: str


class Throttled(msgspec.Struct, frozen=True, tag=True):
    retry_after_seconds: float
    limit: str


class Rejected(msgspec.Struct, frozen=True, tag=True):
    """The delivery cannot run: unknown task, bad arguments, bad signature, newer envelope."""

    reason: str
    error: TaskError


class Passed(msgspec.Struct, frozen=True, tag=True):
    """The chain was ended early by an earlier task, so this one is not run."""


Outcome = (
    Returned | Raised | TimedOut | Died | Revoked | Interrupted | Suspended | Throttled | Rejected | Replaced | Passed
)


class Done(msgspec.Struct, frozen=True, tag=True):
    payload: msgspec.Raw


class Retry(msgspec.Struct, frozen=True, tag=True):
    """Run again after a delay; spends one attempt."""

    delay_seconds: float
    error: TaskError


class Dead(msgspec.Struct, frozen=True, tag=True):
    """Becomes a dead letter, with the reason and details for the operator."""

    reason: str
    error: TaskError
    meta: dict[str, Any] = {}


class Requeue(msgspec.Struct, frozen=True, tag=True):
    """Back into the queue without spending an attempt: `throttled` by a limiter, or `died` with its isolate."""

    delay_seconds: float = 0.0
    reason: str = "requeued"
    throttled: bool = False
    died: bool = False
    event: str | None = None  # due as soon as this event has been sent to the task, or after the delay


class Block(msgspec.Struct, frozen=True, tag=True):
    """Wait for these tasks, without spending an attempt, and end when they have ended, as a join does."""

    after: tuple[str, ...]


class Cancelled(msgspec.Struct, frozen=True, tag=True):
    """With `passes`, what waits for the task goes on as after a success."""

    reason: str
    passes: bool = False


Settlement = Done | Retry | Dead | Requeue | Block | Cancelled
