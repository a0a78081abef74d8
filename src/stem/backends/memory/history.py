"""Read history in bulk from memory: the plain form that the other stores are compared with."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import compress
from typing import Any

import msgspec

from stem.backends.memory.state import MemoryState
from stem.contracts.history import (
    COLUMNS,
    Column,
    NumberedHistory,
    Relation,
    Slice,
    check_columns,
    matches,
    microseconds,
)
from stem.core.event import Event
from stem.core.record import TaskRecord

_ROWS = 1000  # in a chunk


class MemoryHistory(NumberedHistory):
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def chunks(self, piece: Slice, columns: Sequence[str]) -> Iterator[list[Column]]:
        check_columns(piece.relation, columns)
        after, upto = int(piece.after), int(piece.upto)
        rows = self._rows(piece.relation, after, upto)
        return (_chosen(piece, rows[start : start + _ROWS], columns) for start in range(0, len(rows), _ROWS))

    def _ends(self, relation: Relation) -> tuple[int, int]:
        """The last number there is, and the one before the first."""
        with self._state.changed:
            if relation == "events":
                numbers = [self._state.log[0][0], self._state.log[-1][0]] if self._state.log else []
            else:
                numbers = [task.seq for task in self._state.tasks.values()]
            return (max(numbers), min(numbers) - 1) if numbers else (0, 0)

    def _rows(self, relation: Relation, after: int, upto: int) -> list[tuple[Any, ...]]:
        with self._state.changed:
            if relation == "events":
                return [_event(event) for offset, event in self._state.log if after < offset <= upto]
            tasks = sorted(self._state.tasks.values(), key=lambda task: task.seq)
            return [_task(task.record(), task.meta) for task in tasks if after < task.seq <= upto]


def _chosen(piece: Slice, rows: list[tuple[Any, ...]], columns: Sequence[str]) -> list[Column]:
    known = dict(zip(COLUMNS[piece.relation], zip(*rows, strict=True), strict=True))
    passed = matches(piece.relation, piece.where, known.__getitem__)
    return [known[name] if passed is None else list(compress(known[name], passed)) for name in columns]


def _event(event: Event) -> tuple[Any, ...]:
    return (
        event.offset, event.kind.value, _at(event.at), event.task_id, event.name, event.queue, event.attempt, event.worker,
        _at(event.enqueued_at), _at(event.started_at), _json(event.data),
    )  # fmt: skip


def _task(record: TaskRecord, meta: dict[str, Any]) -> tuple[Any, ...]:
    return (
        record.id, record.name, record.queue, record.state.value, record.attempt, record.priority, record.worker,
        None if record.error is None else _json(record.error), _at(record.enqueued_at), _at(record.started_at),
        _at(record.finished_at), _at(record.heartbeat_at), _at(record.updated_at), _json(meta),
        None if record.payload is None else bytes(record.payload).decode(),
    )  # fmt: skip


def _at(moment: datetime | None) -> int | None:
    return None if moment is None else microseconds(moment.timestamp())


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
