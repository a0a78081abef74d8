"""What an attempt came to (facts), and what becomes of the task (decisions)."""

from typing import Any

import msgspec

from stem.core.record import TaskError


class Returned(msgspec.Struct, frozen=True, tag=True):
    payload: msgspec.Raw


class Raised(msgspec.Struct, frozen=True, tag=True):
    error: TaskError
    retry_after_seconds: float | None = None  # the handler's own wish, from ctx.retry(delay=…)


class TimedOut(msgspec.Struct, frozen=True, tag=True):
    limit_seconds: float
    stack: str = ""


class Died(msgspec.Struct, frozen=True, tag=True):
    """The isolate ended without a word. `exit_code` is negative for a signal, as the operating system says it."""

    exit_code: int
    out_of_memory: bool = False


class Revoked(msgspec.Struct, frozen=True, tag=True):
    reason: str


class Interrupted(msgspec.Struct, frozen=True, tag=True):
    """Stem itself cut the attempt off (shutdown, pause, recycle): no fault of the task's."""

    reason: str


class Throttled(msgspec.Struct, frozen=True, tag=True):
    retry_after_seconds: float
    limit: str


class Rejected(msgspec.Struct, frozen=True, tag=True):
    """The delivery cannot be run at all: unknown task, bad arguments, bad signature, newer envelope."""

    reason: str
    error: TaskError


Outcome = Returned | Raised | TimedOut | Died | Revoked | Interrupted | Throttled | Rejected


class Done(msgspec.Struct, frozen=True, tag=True):
    payload: msgspec.Raw


class Retry(msgspec.Struct, frozen=True, tag=True):
    """Again after a delay, one attempt spent."""

    delay_seconds: float
    error: TaskError


class Dead(msgspec.Struct, frozen=True, tag=True):
    """Into the dead letters, with the reason and whatever helps whoever looks at it."""

    reason: str
    error: TaskError
    meta: dict[str, Any] = {}


class Requeue(msgspec.Struct, frozen=True, tag=True):
    """Back into the queue, no attempt spent. `throttled` says a limiter asked for it; `died`, that its isolate fell."""

    delay_seconds: float = 0.0
    reason: str = "requeued"
    throttled: bool = False
    died: bool = False


class Cancelled(msgspec.Struct, frozen=True, tag=True):
    reason: str


Settlement = Done | Retry | Dead | Requeue | Cancelled
