"""Log the endings of tasks; successes without slowing the worker down."""

import logging
from collections import Counter
from collections.abc import Sequence
from threading import Lock
from typing import Any

from stem.core.delivery import Delivery, Ending
from stem.core.outcome import Block, Cancelled, Dead, Done, Requeue, Retry
from stem.core.record import TaskError
from stem.telemetry.trace_ids import checked_trace_id, trace_id_of
from stem.worker.pool.in_flight import InFlightTask

log = logging.getLogger("stem.worker")

LINES_PER_SECOND = 50
MOST_NAMES = 5  # in one summary


def extra_of(
    delivery: Delivery | None, task_id: str, *, reason: str = "", more: str = "", trace_id: str = ""
) -> dict[str, Any]:
    """The `extra` of a log call: the task's id and the fields of its JSON line. `more` follows below the first line, such as a
    traceback. Without a `trace_id` the call's own counts; a later attempt has another one, which only its isolate knows."""
    fields: dict[str, Any] = {}
    if delivery is not None:
        fields = {"name": delivery.name, "attempt": delivery.attempt, "queue": delivery.queue}
        trace_id = trace_id or (trace_id_of(delivery.body) if delivery.attempt == 0 else "")
    if trace_id := checked_trace_id(trace_id):
        fields["traceId"] = trace_id
    if reason:
        fields["reason"] = reason
    return {"task_id": task_id, "fields": fields, "more": more}


def log_ending(task: InFlightTask, ending: Ending) -> None:
    """Log an ending that is not a success, with the traceback if the task raised."""
    delivery, trace_id = task.delivery, task.trace_id
    who = (delivery.lease.id, delivery.name, delivery.attempt)
    match ending.settlement:
        case Dead(reason, error):
            extra = extra_of(delivery, delivery.lease.id, reason=reason, more=error.stack, trace_id=trace_id)
            log.error("task.dead id=%s name=%s attempt=%d reason=%s error=%s", *who, reason, _brief(error), extra=extra)
        case Retry(seconds, error):
            extra = extra_of(delivery, delivery.lease.id, reason=error.type, more=error.stack, trace_id=trace_id)
            message = "task.retried id=%s name=%s attempt=%d delay=%.3g error=%s"
            log.warning(message, *who, seconds, _brief(error), extra=extra)
        case Requeue(seconds, reason, throttled):
            extra = extra_of(delivery, delivery.lease.id, reason=reason, trace_id=trace_id)
            message = "task.requeued id=%s name=%s attempt=%d delay=%.3g reason=%s"
            log.log(logging.DEBUG if throttled else logging.INFO, message, *who, seconds, reason, extra=extra)
        case Block(after):
            message = "task.blocked id=%s name=%s attempt=%d missing=%d"
            log.info(message, *who, len(after), extra=extra_of(delivery, delivery.lease.id, trace_id=trace_id))
        case Cancelled(reason):
            extra = extra_of(delivery, delivery.lease.id, reason=reason, trace_id=trace_id)
            log.info("task.cancelled id=%s name=%s attempt=%d reason=%s", *who, reason, extra=extra)
        case Done():
            pass


class SuccessLog:
    """One line per task that succeeds, up to LINES_PER_SECOND; one line per second sums up the others.

    A line costs about as much as a small task: logging each of 20,000 per second would halve the worker's speed.
    """

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._lock = Lock()
        self._left = LINES_PER_SECOND
        self._others: Counter[str] = Counter()

    def add(self, done: Sequence[tuple[InFlightTask, Ending]]) -> None:
        if not self._is_on or not log.isEnabledFor(logging.INFO):
            return
        with self._lock:
            logged, others = done[: self._left], done[self._left :]
            self._left -= len(logged)
            if others:
                self._others.update([task.delivery.name for task, _ in others])
        for task, ending in logged:
            _log_success(task, ending.run_seconds)

    def tick(self) -> None:
        """Once a second."""
        with self._lock:
            others, self._others, self._left = self._others, Counter(), LINES_PER_SECOND
        if others:
            most = " ".join(f"{name}={count}" for name, count in others.most_common(MOST_NAMES))
            rest = f" and {len(others) - MOST_NAMES} more names" if len(others) > MOST_NAMES else ""
            log.info(
                "tasks.succeeded count=%d, too many in this second for a line each: %s%s", others.total(), most, rest
            )


def _log_success(task: InFlightTask, run_seconds: float | None) -> None:
    delivery, seconds = task.delivery, round(run_seconds or 0.0, 6)
    extra = extra_of(delivery, delivery.lease.id, trace_id=task.trace_id)
    extra["fields"]["seconds"] = seconds
    message = "task.succeeded id=%s name=%s attempt=%d seconds=%.4f"
    log.info(message, delivery.lease.id, delivery.name, delivery.attempt, seconds, extra=extra)


def _brief(error: TaskError) -> str:
    return f"{error.type}: {error.message}".replace("\n", " ")[:200]
