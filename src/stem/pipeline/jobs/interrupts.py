"""Tells the handler of a Spark task to stop: cancels what it waits for, and raises where that does no harm."""

from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread, get_ident
from types import FrameType
from typing import Protocol

from stem.contracts.engine import Attempt
from stem.core.errors import TaskRevoked

LOOK_SECONDS = 0.7  # between two reports
AGAIN_SECONDS = 0.1  # between two orders to cancel: a query that is being planned has no job to cancel yet


class Jobs(Protocol):
    """What an attempt has running on Spark."""

    def is_within(self, frame: FrameType | None, /) -> bool:
        """Whether this is in the middle of a call that must not be cut off; it calls `pass_on` when it is done."""

    def cancel(self) -> None: ...

    def report(self) -> tuple[float | None, str]: ...


class Interrupts:
    """Of one attempt, from before there is a session. What cannot be told at once waits until it can."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._jobs: Jobs | None = None
        self._reason: BaseException | None = None
        self._is_revoked = False
        self._turn = Lock()  # so that no order to cancel comes late and strikes what the handler does next
        self._words: SimpleQueue[bool] = SimpleQueue()  # one that a signal may put into. False: it is over
        self._main = get_ident()
        self._thread = Thread(target=self._watch, name="spark-watch", daemon=True)

    def __enter__(self) -> "Interrupts":
        self._attempt.interrupter = self._strike
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def finish(self) -> None:
        """The function has returned, and is not interrupted any more."""
        self._stop()
        with suppress(TaskRevoked):
            self._attempt.report(1.0, "finished")

    def follow(self, jobs: Jobs) -> None:
        """The session is there. Raises what has been waiting for that."""
        self._jobs = jobs
        self.pass_on()

    def pass_on(self) -> None:
        """Raise what waits, if this is the handler's thread."""
        if self._reason is None or get_ident() != self._main:
            return
        with self._turn:
            reason, self._reason = self._reason, None
        if reason is not None:
            raise reason

    def _stop(self) -> None:
        self._attempt.interrupter = _too_late
        self._words.put(False)
        self._thread.join()

    def _strike(self, reason: BaseException, frame: FrameType | None) -> None:
        self._is_revoked = self._is_revoked or isinstance(reason, TaskRevoked)
        is_deferred = self._jobs is None or self._jobs.is_within(frame)
        if is_deferred:
            self._reason = reason
        self._words.put(True)
        if not is_deferred:
            raise reason

    def _watch(self) -> None:
        while self._goes_on(AGAIN_SECONDS if self._is_to_cancel else LOOK_SECONDS):
            if not self._is_to_cancel:
                self._report()
                continue
            with self._turn:
                if self._is_to_cancel and self._jobs is not None:
                    self._jobs.cancel()

    @property
    def _is_to_cancel(self) -> bool:
        """After its soft limit a handler may use Spark once more, to clean up; after a revoke it may not."""
        return self._is_revoked or self._reason is not None

    def _goes_on(self, seconds: float) -> bool:
        try:
            return self._words.get(timeout=seconds)
        except Empty:
            return True

    def _report(self) -> None:
        try:
            self._attempt.report(*(self._jobs.report() if self._jobs is not None else (0.0, "Spark is starting")))
        except TaskRevoked as reason:
            # A signal tells of this too, but only once an attempt, and there may have been a soft limit before.
            self._is_revoked, self._reason = True, reason


def _too_late(_reason: BaseException, _frame: FrameType | None) -> None:
    """The handler has ended; what it came to is what counts."""
