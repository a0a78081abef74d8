"""Hold a task as its row: changed in memory, then written back whole."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from stem.backends.sqlite.statements import SQL
from stem.core.delivery import Lease

TOP_PRIORITY = 9

# The columns of task_leased: seq, id, name, queue, state, attempt, fence, enqueued at, started at, unique key,
# awaited.
LeasedRow = tuple[int, str, str, str, str, int, int, float, float | None, str | None, int | None]
SEQ: Final = 0
FENCE: Final = 6
UNIQUE_KEY: Final = 9


@dataclass(slots=True, eq=False)
class TaskRow:
    """The fields are the columns of the task_ statements, in their order."""

    seq: int
    id: str
    name: str
    queue: str
    priority: int
    state: str
    attempt: int
    fence: int
    deaths: int
    enqueued_at: float
    updated_at: float
    started_at: float | None = None
    finished_at: float | None = None
    heartbeat_at: float | None = None
    expires_at: float | None = None
    visibility_timeout: float | None = None
    worker: str | None = None
    unique_key: str | None = None
    error: bytes | None = None
    meta: bytes | None = None
    awaited: int | None = None
    joins: int | None = None

    @property
    def rank(self) -> int:
        return TOP_PRIORITY - self.priority

    def merge_meta(self, extra: dict[str, Any]) -> None:
        """Key by key, not deeper."""
        self.meta = json_or_none(from_json(self.meta) | extra)


def held(connection: sqlite3.Connection, ns: int, leases: Iterable[Lease]) -> dict[str, TaskRow]:
    """The leased tasks of these leases' ids; whose lease it is, the fence says."""
    wanted = json_text([lease.id for lease in leases])
    return {row[1]: TaskRow(*row) for row in connection.execute(SQL["task_held"], (ns, wanted))}


def leased(connection: sqlite3.Connection, ns: int, leases: Iterable[Lease]) -> dict[str, LeasedRow]:
    """The same, with no more of each than a plain success takes."""
    wanted = json_text([lease.id for lease in leases])
    return {row[1]: row for row in connection.execute(SQL["task_leased"], (ns, wanted))}


def by_seq(connection: sqlite3.Connection | sqlite3.Cursor, seqs: Sequence[int]) -> list[TaskRow]:
    return [TaskRow(*row) for row in connection.execute(SQL["task_by_seq"], (json_text(seqs),))]


def json_text(values: Sequence[Any]) -> str:
    """Values for json_each: one statement handles them all instead of one call per value."""
    return msgspec.json.encode(values).decode()


def json_or_none(value: dict[str, Any]) -> bytes | None:
    return msgspec.json.encode(value) if value else None


def from_json(text: bytes | None) -> dict[str, Any]:
    return msgspec.json.decode(text, type=dict[str, Any]) if text else {}
