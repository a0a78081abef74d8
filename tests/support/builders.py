"""Envelopes, pushes and endings for tests: each names only what the test speaks of."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec

from stem.core.delivery import Delivery, Ending, Lease
from stem.core.envelope import VERSION, Envelope, Push, Unique, encode_args
from stem.core.outcome import Block, Cancelled, Dead, Done, Requeue, Retry
from stem.core.prerequisites import JOIN, OnFailure
from stem.core.record import TaskError

BOOM = TaskError("ValueError", "boom", "Traceback: line 1", retryable=True)
_numbers = count(1)


def an_envelope(
    id: str | None = None,
    *,
    name: str = "demo.add",
    queue: str = "default",
    priority: int = 5,
    args: Mapping[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    meta: dict[str, Any] | None = None,
    max_retries: int = 3,
    not_before: datetime | None = None,
    expires_at: datetime | None = None,
    visibility_timeout: float | None = None,
    after: Iterable[str] = (),
    on_failure: OnFailure | str = OnFailure.CANCEL,
    inputs: dict[str, str] | None = None,
) -> Envelope:
    return Envelope(
        id=id or f"task-{next(_numbers)}",
        name=name,
        args=encode_args(args or {}, limit_bytes=4 * 1024 * 1024),
        headers=headers or {},
        enqueued_at=datetime.now(UTC),
        not_before=not_before,
        priority=priority,
        attempt=0,
        max_retries=max_retries,
        visibility_timeout=visibility_timeout,
        queue=queue,
        meta=meta or {},
        version=VERSION,
        expires_at=expires_at,
        after=tuple(after),
        on_failure=OnFailure(on_failure),
        inputs=inputs or {},
    )


def a_push(
    id: str | None = None,
    *,
    delay: float | None = None,
    expires: float | None = None,
    unique: str | Unique | None = None,
    into: str | None = None,
    **envelope: Any,
) -> Push:
    """`unique` as a string is a key held until the task ends."""
    key = Unique(unique) if isinstance(unique, str) else unique
    return Push(an_envelope(id, **envelope), delay_seconds=delay, expires_seconds=expires, unique=key, into=into)


def a_join(
    id: str | None = None, *after: str, name: str = JOIN, unique: str | Unique | None = None, **envelope: Any
) -> Push:
    """Ends by itself when these have ended."""
    return a_push(id, name=name, after=after, unique=unique, **envelope)


def pushes(*ids: str, **envelope: Any) -> list[Push]:
    return [a_push(id, **envelope) for id in ids]


def done(
    held: Delivery | Lease,
    value: Any = None,
    *,
    ran: float | None = 0.0,
    meta: dict[str, Any] | None = None,
    then: Iterable[Push] = (),
) -> Ending:
    payload = msgspec.Raw(msgspec.json.encode(value))
    return Ending(_lease(held), Done(payload), ran, meta or {}, tuple(then))


def retry(
    held: Delivery | Lease,
    delay: float = 0.0,
    *,
    error: TaskError = BOOM,
    ran: float | None = 0.0,
    meta: dict[str, Any] | None = None,
    then: Iterable[Push] = (),
) -> Ending:
    return Ending(_lease(held), Retry(delay, error), ran, meta or {}, tuple(then))


def dead(
    held: Delivery | Lease,
    reason: str = "retries-exhausted",
    *,
    error: TaskError = BOOM,
    ran: float | None = 0.0,
    note: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    then: Iterable[Push] = (),
) -> Ending:
    """`note` goes into the letter, `meta` into the record."""
    return Ending(_lease(held), Dead(reason, error, note or {}), ran, meta or {}, tuple(then))


def requeue(
    held: Delivery | Lease,
    delay: float = 0.0,
    *,
    reason: str = "requeued",
    throttled: bool = False,
    died: bool = False,
    event: str | None = None,
    ran: float | None = None,
    meta: dict[str, Any] | None = None,
    then: Iterable[Push] = (),
) -> Ending:
    return Ending(_lease(held), Requeue(delay, reason, throttled, died, event), ran, meta or {}, tuple(then))


def block(
    held: Delivery | Lease,
    *after: str,
    ran: float | None = 0.0,
    meta: dict[str, Any] | None = None,
    then: Iterable[Push] = (),
) -> Ending:
    """It waits for these, and ends when they have ended."""
    return Ending(_lease(held), Block(after), ran, meta or {}, tuple(then))


def cancelled(
    held: Delivery | Lease,
    reason: str = "revoked",
    *,
    passes: bool = False,
    ran: float | None = None,
    meta: dict[str, Any] | None = None,
    then: Iterable[Push] = (),
) -> Ending:
    return Ending(_lease(held), Cancelled(reason, passes), ran, meta or {}, tuple(then))


def _lease(held: Delivery | Lease) -> Lease:
    return held.lease if isinstance(held, Delivery) else held
