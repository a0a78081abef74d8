"""The errors that Stem raises, each with a remedy."""

from typing import TYPE_CHECKING

from stem.core.text.masking import masked_text

if TYPE_CHECKING:
    from stem.core.record import TaskError, TaskRecord


class StemError(Exception):
    """Root of all errors that Stem raises on purpose. The text is one sentence and a remedy, without credentials."""

    exit_code = 70

    def __init__(self, *args: object) -> None:
        super().__init__(*(masked_text(each) if isinstance(each, str) else each for each in args))


class UsageError(StemError):
    """The call is contradictory or out of place; nothing was written."""

    exit_code = 64


class ConfigError(UsageError):
    """A setting, URL or key is missing or malformed."""


class InvalidSchedule(ConfigError):
    """The expression, time zone or place of a schedule entry is malformed, or it never comes."""


class InvalidTask(UsageError):
    """The call cannot become an envelope: a name, id, header, priority, time or option is out of bounds."""


class InvalidArguments(InvalidTask):
    """The arguments do not fit the task's signature, JSON, or the size limit."""


class UnknownTask(UsageError):
    """No task of that name is registered with the app."""


class NoLiveWorkers(StemError):
    """No live worker would run a broadcast; nothing was written."""


class TaskNotFound(StemError):
    """The store has no task of that id: it was never enqueued here, or its result has expired."""

    exit_code = 1


class DeadLetterNotFound(StemError):
    """There is no dead letter of that id."""

    exit_code = 1


class StoreUnavailable(StemError):
    """The store could not be reached, or did not answer in time."""


class StoreRefused(StemError):
    """The store refused: bad password, no permission, read-only, full, too old, or another application's."""


class SparkUnavailable(StemError):
    """Spark could not be started or reached: a package, Java, a master or a server is missing."""


class LakeRefused(StemError):
    """The lake cannot be read or written as it is: absent, damaged, another store's, or written by a newer Stem."""


class EnvelopeUnreadable(StemError):
    """The stored envelope is not valid JSON, or was written by a newer Stem."""


class SignatureInvalid(StemError):
    """The envelope's signature is missing, made with an unknown key, or does not match."""


class WaitTimeout(StemError, TimeoutError):
    """The task did not end within the timeout; the task itself is unaffected."""


class EventTimeout(StemError, TimeoutError):
    """The event that a task waited for was not sent in time."""


class TaskEnded(StemError):
    """The task ended without a value. `record` is its record, `error` the failure recorded there, if there is one."""

    def __init__(self, message: str = "", record: "TaskRecord | None" = None) -> None:
        super().__init__(message)
        self.record = record

    @property
    def error(self) -> "TaskError | None":
        return None if self.record is None else self.record.error


class TaskFailed(TaskEnded):
    """The task ended in failure; its recorded error is in the message, in `error`, and with its traceback the cause."""


class TaskCancelled(TaskEnded):
    """The task was revoked, purged or expired before it could succeed."""


class RemoteTraceback(Exception):
    """The traceback of a failed task as text, shown as the cause of a TaskFailed."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class SoftTimeLimitExceeded(StemError):
    """The task ran past its soft limit; catch it to clean up, else the attempt counts as failed and is retried."""


class Drop(Exception):
    """Raised by a handler to end its task without a retry and without a dead letter: `raise Drop("the user is gone")`. The
    state is `cancelled`, with the text as the reason."""


class TaskRevoked(BaseException):
    """Raised in the handler of a task that was revoked while it runs.

    A BaseException, so that a handler's `except Exception` cannot swallow it. Clean up in `finally`, and let it pass.
    """
