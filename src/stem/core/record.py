"""The status record of a task: what anyone may know of it, in any language."""

from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import msgspec

from stem.core.lifecycle import TERMINAL, State

T = TypeVar("T")


class TaskError(msgspec.Struct, frozen=True, rename="camel"):
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

    A task that waits has no worker and no start; `meta` holds what the caller gave, `progress`, and what workers noted.
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
        """The returned value, decoded; None when there is none."""
        return None if self.payload is None else msgspec.json.decode(self.payload)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, with the names that `stem task show --json` has: to be returned from a web handler."""
        return msgspec.json.decode(msgspec.json.encode(self), type=dict[str, Any])


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def moment_or_none(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def noted(meta: dict[str, Any], heartbeat_at: datetime | None) -> dict[str, Any]:
    """A record's meta with its last sign of life, for whoever reads meta only."""
    return meta if heartbeat_at is None else {**meta, "heartbeatAt": msgspec.to_builtins(heartbeat_at)}


def replay_notes(meta: dict[str, Any], at: datetime) -> dict[str, Any]:
    """What a replay adds to the meta of the task's record."""
    before = meta.get("replayCount")
    count = before if isinstance(before, int) else 0
    return {"replayCount": count + 1, "lastReplayAt": msgspec.to_builtins(at)}


def with_replays(letter: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """The meta of a dead letter, with what its record says of replays."""
    return {**letter, **{key: record[key] for key in ("replayCount", "lastReplayAt") if key in record}}


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """None means any. `since` and `until` bound when the task was enqueued. `meta`: those whose record's meta has these values,
    as the caller or a worker noted them; progress and the last heartbeat are not looked at."""

    state: State | None = None
    queue: str | None = None
    name: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    meta: dict[str, Any] | None = None


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a listing, newest first. `cursor` asks for the next page; None says that this was the last."""

    items: list[T]
    cursor: str | None
