"""Interrupt the handler of a Spark task: cancel its jobs, and raise where that is safe."""

from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread, get_ident
from types import FrameType
from typing import Protocol

from stem.contracts.engine import Attempt
from stem.core.errors import TaskRevoked

LOOK_SECONDS = 0.7  # between two reports
AGAIN_SECONDS = 0.1  # between two cancels: a query that is being planned has no job yet


class Jobs(Protocol):
    """The work of an attempt on Spark."""

    def is_within(self, frame: FrameType | None, /) -> bool:
        """Whether the frame is within a call that must not be interrupted; that call calls `pass_on` when it returns."""

    def cancel(self) -> None: ...

    def report(self) -> tuple[float | None, str]: ...


class Interrupts:
    """The interrupts of one attempt, from before its session exists. An interrupt that is not safe yet is deferred."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._jobs: Jobs | None = None
        self._reason: BaseException | None = None
        self._is_revoked = False
        self._turn = Lock()  # so that a late cancel does not hit what the handler does next
        self._wakeups: SimpleQueue[bool] = SimpleQueue()  # safe to use in a signal handler; False means the end
        self._main = get_ident()
        self._thread = Thread(target=self._watch, name="spark-watch", daemon=True)

    def __enter__(self) -> "Interrupts":
        self._attempt.interrupter = self._strike
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def finish(self) -> None:
        """The function has returned; do not interrupt any more."""
        self._stop()
        with suppress(TaskRevoked):
            self._attempt.report(1.0, "finished")

    def follow(self, jobs: Jobs) -> None:
        """The session exists. Raises an interrupt that was deferred until now."""
        self._jobs = jobs
        self.pass_on()

    def pass_on(self) -> None:
        """Raise a deferred interrupt, if this is the handler's thread."""
        if self._reason is None or get_ident() != self._main:
            return
        with self._turn:
            reason, self._reason = self._reason, None
        if reason is not None:
            raise reason

    def _stop(self) -> None:
        self._attempt.interrupter = _too_late
        self._wakeups.put(False)
        self._thread.join()

    def _strike(self, reason: BaseException, frame: FrameType | None) -> None:
        self._is_revoked = self._is_revoked or isinstance(reason, TaskRevoked)
        is_deferred = self._jobs is None or self._jobs.is_within(frame)
        if is_deferred:
            self._reason = reason
        self._wakeups.put(True)
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
        """After the soft limit a handler may use Spark again to clean up; after a revoke it may not."""
        return self._is_revoked or self._reason is not None

    def _goes_on(self, seconds: float) -> bool:
        try:
            return self._wakeups.get(timeout=seconds)
        except Empty:
            return True

    def _report(self) -> None:
        try:
            self._attempt.report(*(self._jobs.report() if self._jobs is not None else (0.0, "Spark is starting")))
        except TaskRevoked as reason:
            # A signal comes only once per attempt, and the soft limit may have used it.
            self._is_revoked, self._reason = True, reason


def _too_late(_reason: BaseException, _frame: FrameType | None) -> None:
    """The handler has ended; ignore the interrupt."""
