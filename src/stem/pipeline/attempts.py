"""The rule of `silver.py` once more, for readers that have no DataFrame yet: which event ends an attempt, and how."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from stem.core.fingerprint import fingerprint
from stem.core.lifecycle import EventKind

# Events that may end an attempt.
ENDINGS = (EventKind.SUCCEEDED, EventKind.RETRIED, EventKind.FAILED, EventKind.REVOKED, EventKind.REQUEUED)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FALLEN = "The process that ran the task"  # how the settlement of a fallen isolate begins
_of_error = lru_cache(4096)(fingerprint)


def outcome(kind: str, started_at: int | None, reason: str | None) -> str | None:
    """None for an event that ended no attempt."""
    match kind:
        case EventKind.SUCCEEDED | EventKind.RETRIED | EventKind.FAILED:
            return kind
        case EventKind.REVOKED if started_at is not None:
            return "cancelled"
        case EventKind.REQUEUED if started_at is not None:
            is_lost = reason is not None and (reason == "lease-expired" or reason.startswith(_FALLEN))
            return "lost" if is_lost else "interrupted"
        case _:
            return None


def wait_seconds(attempt: int, enqueued_at: int, started_at: int | None, due: str | None) -> float | None:
    return _seconds(waits_from(enqueued_at, due), started_at) if attempt == 0 else None


def waits_from(enqueued_at: int, due: str | None) -> int:
    """A task that was sent ahead of its time waits from then on."""
    if due is None:
        return enqueued_at
    try:
        since = datetime.fromisoformat(due) - _EPOCH
    except (ValueError, TypeError, OverflowError):  # a moment that Python cannot tell, or one without a zone
        return enqueued_at
    return max(enqueued_at, since // timedelta(microseconds=1))


def run_seconds(started_at: int | None, finished_at: int) -> float | None:
    return _seconds(started_at, finished_at)


def fingerprint_or_none(error_type: str | None, message: str | None) -> str | None:
    return None if error_type is None else _of_error(error_type, message or "")


def _seconds(start: int | None, end: int | None) -> float | None:
    """Never negative: a start is dated back by the worker's clock, an end is the store's."""
    return None if start is None or end is None else max(0.0, (end - start) / 1_000_000)
