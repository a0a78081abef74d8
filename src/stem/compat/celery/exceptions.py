"""Celery's exceptions, as far as Stem can raise them."""

import builtins
from datetime import datetime, timedelta
from typing import Any

from stem.core.errors import SoftTimeLimitExceeded as SoftTimeLimitExceeded


class CeleryError(Exception):
    """Root of Celery's errors."""


class TaskPredicate(CeleryError):
    """Raised to end an attempt in another way than by success or failure."""


class CeleryRetry(TaskPredicate):
    """The task is to be run again; `self.retry()` raises it."""

    def __init__(
        self,
        message: str | None = None,
        exc: Any = None,
        when: float | datetime | None = None,
        is_eager: bool = False,
        sig: Any = None,
        **_more: Any,
    ) -> None:
        super().__init__(message or "Task can be retried", exc, when)
        self.message = message
        self.exc = exc if isinstance(exc, BaseException) else None
        self.excs = repr(exc) if exc is not None else None
        self.when = when
        self.is_eager = is_eager
        self.sig = sig
        self.limit: int | None = None  # of the retries, as `self.retry` has found it

    def humanize(self) -> str:
        return f"in {self.when}s" if isinstance(self.when, int | float) else f"at {self.when}"

    def __str__(self) -> str:
        if self.message:
            return self.message
        return f"Retry {self.humanize()}: {self.excs}" if self.excs else f"Retry {self.humanize()}"


Retry = CeleryRetry
RetryTaskError = CeleryRetry


class Ignore(TaskPredicate):
    """The result of the task does not count: it ends as REVOKED."""


class Reject(TaskPredicate):
    """Do not accept the task: it becomes a dead letter, or with `requeue` runs again later."""

    def __init__(self, reason: Any = None, requeue: bool = False) -> None:
        super().__init__(reason, requeue)
        self.reason = reason
        self.requeue = requeue


class CeleryTaskError(CeleryError):
    """Root of errors of tasks."""


class ImproperlyConfigured(CeleryError):
    """The configuration is wrong."""


class SecurityError(CeleryError):
    """A signature is wrong."""


class QueueNotFound(CeleryError, KeyError):
    """There is no such queue."""


class NotRegistered(CeleryError, KeyError):
    """No task of that name is registered."""


class AlreadyRegistered(CeleryError):
    """The task is registered already."""


class CeleryTimeout(CeleryError, builtins.TimeoutError):
    """The result did not come in time."""


TimeoutError = CeleryTimeout


class MaxRetriesExceededError(CeleryError):
    """The task has been retried as often as it may."""

    def __init__(self, *args: Any, task_args: Any = (), task_kwargs: Any = None) -> None:
        super().__init__(*args)
        self.task_args = task_args
        self.task_kwargs = task_kwargs or {}


class TaskRevokedError(CeleryError):
    """The task was revoked, so it has no result."""


class InvalidTaskError(CeleryError):
    """The task has invalid data or options."""


class ChordError(CeleryError):
    """A member of a chord failed."""


class IncompleteStream(CeleryError):
    """Kept for imports; never raised."""


class TimeLimitExceeded(CeleryError):
    """The task ran past its hard time limit and was killed."""


class WorkerLostError(CeleryError):
    """The process that ran the task died too often."""


class TaskTerminated(CeleryError):
    """The task was terminated."""


class OperationalError(CeleryError):
    """The store could not be reached."""


class BackendError(CeleryError):
    """The store of results could not be reached."""


class WorkerShutdown(SystemExit):
    """Kept for imports; stop workers by a signal."""


class WorkerTerminate(SystemExit):
    """Kept for imports; stop workers by a signal."""


TaskError = CeleryTaskError
Terminated = TaskTerminated
for _name in (
    "Retry",
    "TaskError",
    "Terminated",
    "TimeoutError",
):  # so that they are recorded and found by Celery's names
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name


def seconds_until(when: datetime | timedelta | float, now: datetime) -> float:
    """Seconds from now; a moment without a time zone is UTC."""
    if isinstance(when, timedelta):
        return when.total_seconds()
    if isinstance(when, datetime):
        return max(0.0, (when if when.tzinfo else when.replace(tzinfo=now.tzinfo)).timestamp() - now.timestamp())
    return float(when)
