"""Revokes tasks: stores the records first and tells workers second, so that a revoke is durable before it has an effect."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stem.contracts.broker import Broker
from stem.contracts.steering.revokes import Revokes
from stem.control.caller import TIMEOUT_SECONDS, Answers, Caller
from stem.control.command_session import CommandSession
from stem.control.sealing import sealed
from stem.core.control import Reply
from stem.core.envelope import check_id
from stem.core.errors import UsageError
from stem.core.pause import is_pause
from stem.core.revoke import RevokeRecord, RevokeRequest

COMMAND_BYTES = 240_000  # of records in one command; the rest of what it may take is for what is around them
# Workers take ten commands a second; leave room for those of others.
AT_ONCE = 5
PAUSE_SECONDS = 0.15
LEAST_SECONDS = 0.2  # for a part, when those before it have used up the time


@dataclass(frozen=True, slots=True)
class RevokeResult:
    """The records that hold from now on, and what workers said; None: no worker is known that could have been told.
    `cancelled` are the ids of those that waited, and are cancelled already."""

    records: Sequence[RevokeRecord]
    answers: Answers | None
    cancelled: Sequence[str] = ()


def revoke_tasks(
    session: CommandSession,
    ids: Sequence[str],
    *,
    terminate: bool = False,
    signal: str = "SIGTERM",
    reason: str = "",
    expires_seconds: float | None = None,
) -> RevokeResult:
    """Write a record for each task and tell workers; see `revoke`. Without `expires_seconds` the records stay."""
    requests = [
        RevokeRequest(
            task_id=task_id,
            reason=reason,
            requester=session.requester,
            terminate=terminate,
            signal=signal if terminate else None,
            expires_seconds=expires_seconds,
        )
        for task_id in ids
    ]
    with session.revokes() as revokes:
        return revoke(
            revokes,
            session.caller,
            requests,
            terminate=terminate,
            signal=signal,
            workers=session.workers,
            timeout_seconds=session.timeout_seconds,
            broker=session.store.broker,
        )


def revoke(
    revokes: Revokes,
    caller: Caller,
    requests: Sequence[RevokeRequest],
    *,
    terminate: bool = False,
    signal: str = "SIGTERM",
    workers: Sequence[str] = (),
    timeout_seconds: float = TIMEOUT_SECONDS,
    broker: Broker | None = None,
) -> RevokeResult:
    """Durable when it returns, or raises after; each worker's reply has what it did with each id (`tasks`). Signed where the
    caller has keys. What waits in `broker` is cancelled at once, so that its unique key is free. Raises UsageError and
    ConfigError before anything is written."""
    check_revocable([request.task_id for request in requests])
    records = revokes.put(sealed(requests, revokes.get([request.task_id for request in requests]), caller))
    cancelled = [] if broker is None else _cancel(broker, records)
    parts = [{"records": part, "terminate": terminate, "signal": signal} for part in _parts(map(_brief, records))]
    return RevokeResult(records, _tell(caller, parts, workers, timeout_seconds), cancelled)


def _cancel(broker: Broker, records: Sequence[RevokeRecord]) -> list[str]:
    ids: dict[str, list[str]] = {}  # by reason
    for record in records:
        ids.setdefault(record.reason or "revoked", []).append(record.task_id)
    return [id for reason, group in ids.items() for id in broker.cancel(group, reason=reason)]


def check_revocable(task_ids: Iterable[str]) -> None:
    """Raises UsageError for what is no id of a task."""
    for task_id in task_ids:
        check_id(task_id)
        if is_pause(task_id):
            raise UsageError(f"{task_id} is a paused queue and no task; see: stem worker resume --help")


def _tell(
    caller: Caller, payloads: Iterable[Mapping[str, Any]], workers: Sequence[str], timeout_seconds: float
) -> Answers | None:
    """In as many commands as it takes; the time is for all of them."""
    told: Answers | None = None
    for number, payload in enumerate(payloads):
        if number >= AT_ONCE:
            time.sleep(PAUSE_SECONDS)
        left = timeout_seconds - (told.elapsed_seconds if told is not None else 0.0)
        answers = caller.ask("revoke", payload, workers=workers, timeout_seconds=max(left, LEAST_SECONDS))
        if not answers.replies:
            return told
        told = answers if told is None else _joined(told, answers)
    return told


def _parts(records: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    part: list[dict[str, Any]] = []
    size = 0
    for record in records:
        length = len(msgspec.json.encode(record)) + 1
        if part and size + length > COMMAND_BYTES:
            yield part
            part, size = [], 0
        part.append(record)
        size += length
    yield part


def _brief(record: RevokeRecord) -> dict[str, Any]:
    """Without what is not said and what workers do not ask for: a command holds the more of them."""
    fields: dict[str, Any] = msgspec.to_builtins(record)
    del fields["requester"]
    return {name: value for name, value in fields.items() if value not in (None, "", False)}


def _joined(one: Answers, other: Answers) -> Answers:
    """A worker that failed once has failed, and what it did is told as far as it is known."""
    both = one.replies.keys() & other.replies.keys()
    joined = {worker: _joined_reply(one.replies[worker], other.replies[worker]) for worker in both}
    return Answers(
        request_id=one.request_id,
        transport=one.transport,
        elapsed_seconds=one.elapsed_seconds + other.elapsed_seconds,
        replies=dict(sorted({**one.replies, **other.replies, **joined}.items())),
        health={**one.health, **other.health},
        is_verified=one.is_verified and other.is_verified,
    )


def _joined_reply(one: Reply, other: Reply) -> Reply:
    worst = one if one.status != "ok" else other
    tasks = {**_tasks(one), **_tasks(other)}
    return msgspec.structs.replace(worst, payload={**worst.payload, "tasks": tasks})


def _tasks(reply: Reply) -> dict[str, Any]:
    """A worker that is not ours may say anything."""
    tasks = reply.payload.get("tasks")
    return tasks if isinstance(tasks, dict) else {}
