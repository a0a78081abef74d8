"""The record of a task: state, times, result and error."""

import re
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import msgspec

from stem.core.lifecycle import TERMINAL, State

T = TypeVar("T")
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9._:\-]+", re.ASCII)  # which JSON writes as it is


REPLAY_OF = "replayOf"  # in meta: the task whose call this one repeats


class TaskError(msgspec.Struct, frozen=True, rename="camel"):
    """The error that ended a task or its last attempt, as it is stored."""

    type: str
    message: str
    stack: str = ""
    retryable: bool = False


_WIRE_NAMES = {
    "state": "status",
    "enqueued_at": "enqueuedAt",
    "started_at": "startedAt",
    "finished_at": "finishedAt",
    "heartbeat_at": "heartbeatAt",
    "updated_at": "updatedAt",
}


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True, rename=_WIRE_NAMES):
    """Times are the store's. `payload` is the JSON of the returned value, `error` the last failure.

    A task that waits has no worker and no start; `meta` holds what the caller gave, `progress`, and what workers added.
    """

    id: str
    name: str
    queue: str
    state: State
    attempt: int
    fence: int
    priority: int
    payload: msgspec.Raw | None = None
    error: TaskError | None = None
    meta: dict[str, Any] = {}
    worker: str | None = None
    enqueued_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    heartbeat_at: datetime | None = None
    updated_at: datetime

    @property
    def stage(self) -> int:
        """0 waiting, 1 running, 2 ended."""
        return 2 if self.state in TERMINAL else int(self.state is State.RUNNING)

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL

    def result(self) -> Any:
        """The returned value, decoded; None if there is none."""
        return None if self.payload is None else msgspec.json.decode(self.payload)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, with the names that `stem task show --json` has: to be returned from a web handler."""
        return msgspec.json.decode(msgspec.json.encode(self), type=dict[str, Any])


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def moment_or_none(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def noted(meta: dict[str, Any], heartbeat_at: datetime | None) -> dict[str, Any]:
    """Return the meta with the last heartbeat, for readers of meta only."""
    return meta if heartbeat_at is None else {**meta, "heartbeatAt": msgspec.to_builtins(heartbeat_at)}


def replay_notes(meta: dict[str, Any], at: datetime) -> dict[str, Any]:
    """Return what a replay adds to the record's meta."""
    before = meta.get("replayCount")
    count = before if isinstance(before, int) else 0
    return {"replayCount": count + 1, "lastReplayAt": msgspec.to_builtins(at)}


def with_replays(letter: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Return the meta of a dead letter, with the replays that its record counts."""
    return {**letter, **{key: record[key] for key in ("replayCount", "lastReplayAt") if key in record}}


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects tasks. None means any; `since` and `until` bound when the task was enqueued; `meta` has values that the
    record's meta must have (progress and the last heartbeat do not count)."""

    state: State | None = None
    queue: str | None = None
    name: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    meta: dict[str, Any] | None = None

    @property
    def meta_text(self) -> str | None:
        """A text that stands in the JSON of every matching meta, for a store that would have to parse each. None: unknown."""
        plain = [
            value for value in (self.meta or {}).values() if isinstance(value, str) and _PLAIN_VALUE.fullmatch(value)
        ]
        return max(plain, key=len, default=None)


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a listing, newest first. `cursor` requests the next page; None: this is the last."""

    items: list[T]
    cursor: str | None
