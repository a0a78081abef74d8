"""Events: what the event log records about tasks and workers."""

from datetime import datetime
from typing import Any

import msgspec

from stem.core.lifecycle import EventKind
from stem.core.outcome import Block, Cancelled, Dead, Done, Requeue, Retry, Settlement
from stem.core.record import TaskError


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One event, written together with the change it describes. All times are the store's.

    `offset` is opaque text: ask a store for what follows it, never compute with it. Every event of a task carries when
    it was enqueued and, once known, when its attempt started; for an ending `at` is when it finished.
    """

    offset: str
    kind: EventKind
    at: datetime
    task_id: str
    name: str
    queue: str
    attempt: int
    worker: str | None
    enqueued_at: datetime
    started_at: datetime | None
    data: dict[str, Any]


def event_kinds(settlement: Settlement) -> tuple[EventKind, ...]:
    """Return the events that a settlement leaves in the log, in order."""
    match settlement:
        case Done():
            return (EventKind.SUCCEEDED,)
        case Retry():
            return (EventKind.RETRIED,)
        case Dead():
            return (EventKind.FAILED, EventKind.DEAD_LETTERED)
        case Requeue(throttled=True):
            return (EventKind.THROTTLED,)
        case Requeue():
            return (EventKind.REQUEUED,)
        case Block():
            return (EventKind.BLOCKED,)
        case Cancelled():
            return (EventKind.REVOKED,)


def event_data(settlement: Settlement, facts: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the data of those events; no payloads."""
    return {**_data(settlement), **facts} if facts else _data(settlement)


def _data(settlement: Settlement) -> dict[str, Any]:
    match settlement:
        case Done():
            return {}
        case Retry(seconds, error):
            return {"delaySeconds": seconds, "error": _brief(error)}
        case Dead(reason, error):
            return {"reason": reason, "error": _brief(error)}
        case Requeue(seconds, reason, died=died):
            return {"delaySeconds": seconds, "reason": reason, **({"died": True} if died else {})}
        case Block(after):
            return {"missing": len(after)}
        case Cancelled(reason):
            return {"reason": reason}


def _brief(error: TaskError) -> dict[str, Any]:
    return {"type": error.type, "message": error.message[:500], "retryable": error.retryable}
