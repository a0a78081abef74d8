"""Keep task records in memory."""

from collections.abc import Sequence

import msgspec

from stem.backends.memory.state import MemoryState, MemoryTask, StoreHandle
from stem.contracts.results import Results
from stem.core.lifecycle import TERMINAL
from stem.core.record import Page, TaskFilter, TaskRecord, moment


class MemoryResults(Results):
    def __init__(self, state: MemoryState, handle: StoreHandle) -> None:
        self._state = state
        self._handle = handle

    def get(self, task_ids: Sequence[str], *, past_retention: bool = False) -> dict[str, TaskRecord]:
        find = self._state.tasks.get if past_retention else self._state.readable
        with self._state.changed:
            return {id: task.record() for id in task_ids if (task := find(id)) is not None}

    def wait(self, task_ids: Sequence[str], *, timeout_seconds: float) -> dict[str, TaskRecord]:
        state = self._state

        def ended() -> list[str]:
            found = ((id, state.readable(id)) for id in task_ids)
            return [id for id, task in found if task is not None and task.state in TERMINAL]

        with self._state.changed:
            self._state.sleep_until(lambda: bool(ended()), timeout_seconds, self._handle)
            return {id: state.tasks[id].record() for id in ended()}

    def page(self, where: TaskFilter, *, limit: int, cursor: str | None = None) -> Page[TaskRecord]:
        with self._state.changed:
            found = [
                task
                for task in sorted(self._state.tasks.values(), key=lambda task: task.seq, reverse=True)
                if (cursor is None or task.seq < int(cursor))
                and _matches(task, where)
                and self._state.readable(task.id) is not None
            ]
            more = len(found) > limit > 0
            return Page([task.record() for task in found[: max(0, limit)]], str(found[limit - 1].seq) if more else None)

    def save(self, records: Sequence[TaskRecord]) -> None:
        with self._state.changed:
            for record in records:
                old = self._state.tasks.get(record.id)
                if old is None or _order(record) >= _order(old.record()):
                    self._state.tasks[record.id] = self._task(record, old)
            self._state.changed.notify_all()

    def _task(self, record: TaskRecord, old: MemoryTask | None) -> MemoryTask:
        return MemoryTask(
            seq=old.seq if old else self._state.number("seq"),
            id=record.id,
            name=record.name,
            queue=record.queue,
            priority=record.priority,
            enqueued_at=record.enqueued_at.timestamp(),
            updated_at=record.updated_at.timestamp(),
            meta=dict(record.meta),
            state=record.state,
            attempt=record.attempt,
            fence=record.fence,
            payload=record.payload,
            error=record.error,
            worker=record.worker,
            started_at=record.started_at.timestamp() if record.started_at else None,
            finished_at=record.finished_at.timestamp() if record.finished_at else None,
            heartbeat_at=record.heartbeat_at.timestamp() if record.heartbeat_at else None,
        )


_json = msgspec.json.encode  # in which 1 is not true


def _order(record: TaskRecord) -> tuple[int, int, int]:
    return (record.fence, record.attempt, record.stage)


def _matches(task: MemoryTask, where: TaskFilter) -> bool:
    return (
        where.state in (None, task.state)
        and where.queue in (None, task.queue)
        and where.name in (None, task.name)
        and (where.since is None or moment(task.enqueued_at) >= where.since)
        and (where.until is None or moment(task.enqueued_at) < where.until)
        and all(key in task.meta and _json(task.meta[key]) == _json(value) for key, value in (where.meta or {}).items())
    )
