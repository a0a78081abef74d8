"""Collect the changes of one transaction, then write them with one statement per table."""

import sqlite3
from typing import Any

import msgspec

from stem.backends.sqlite.log import event_rows
from stem.backends.sqlite.log.event_rows import Line
from stem.backends.sqlite.namespace import SqliteNamespace, moment
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks.task_row import LeasedRow, TaskRow, json_or_none, json_text
from stem.backends.tenants import REPORTS, tenant_of
from stem.core.event import event_data, event_kinds
from stem.core.lifecycle import waiting_state
from stem.core.outcome import Dead
from stem.core.record import TaskError

Row = tuple[Any, ...]
_IN_ORDER = (
    "ready_take", "ready_delete", "delayed_delete", "dead_delete",
    "task_insert", "task_insert_linked", "task_done", "task_done_noted", "task_change", "task_meta", "task_join", "task_pass",
    "unique_put", "unique_free",  # a task may take a key and end in one transaction; of another's key nothing is freed
    "ready_insert", "delayed_insert",
    "blocked_insert", "blocked_more", "blocked_left", "blocked_revivable", "blocked_delete",
    "edge_insert", "edge_counted", "cascade_put", "lease_renew",
)  # fmt: skip


class WriteBatch:
    """The changes of one transaction. Methods change tasks in memory; `write` stores them all, and can be called again.

    `succeeded` and `failed` are the tasks that have ended while others wait for them; `cascading.finish` tells those.
    """

    def __init__(self, namespace: SqliteNamespace, now: float) -> None:
        self.now = now
        self.queues: set[str] = set()
        self.succeeded: list[int] = []
        self.failed: list[int] = []
        self.awaited: list[int] = []  # stored tasks that others wait for from now on
        self._topics: set[str] = set()
        self._namespace = namespace
        self._rows: dict[str, list[Row]] = {name: [] for name in _IN_ORDER}
        self._changed: dict[int, tuple[TaskRow, float | None, bool]] = {}
        self._lines: list[Line] = []
        self._without_tenant: list[tuple[int, int]] = []  # line, and the task whose tenant it lacks
        self._dead: list[Row] = []
        self.add = {name: rows.append for name, rows in self._rows.items()}
        self.add_line = self._lines.append
        self._done = self.add["task_done"]
        self._left: list[int] = []  # whose leases are over
        self._leave = self._left.append

    @property
    def topics(self) -> set[str]:
        """Whom to ring once it is committed."""
        return self._topics | {f"queue:{queue}" for queue in self.queues}

    def tell(self, kind: str, task: TaskRow, at: float, data: dict[str, Any] | None = None) -> None:
        if kind not in REPORTS and not (data and "tenant" in data):
            self._without_tenant.append((len(self._lines), task.seq))
        self.add_line(
            (
                kind,
                at,
                task.id,
                task.name,
                task.queue,
                task.attempt,
                task.worker,
                task.enqueued_at,
                task.started_at,
                data,
            )
        )

    def change(self, task: TaskRow, *, ended_at: float | None = None, keeps_body: bool = True) -> None:
        """Write the task as it will be when the batch is written; the last word on it counts."""
        self._changed[task.seq] = (task, ended_at, keeps_body)

    def start(self, task: TaskRow, worker: str, ago_seconds: float) -> None:
        at = moment(self.now - ago_seconds)
        task.state, task.worker, task.started_at, task.updated_at = "running", worker, at, self.now
        self.tell("started", task, at)
        self.change(task)

    def enter(self, task: TaskRow, due_at: float) -> None:
        """Put the task into its queue, at the place that its priority and age give it."""
        if due_at <= self.now:
            self.add["ready_insert"]((self._namespace.ns, task.queue, task.rank, task.seq, due_at))
        else:
            self.add["delayed_insert"]((self._namespace.ns, task.queue, due_at, task.seq))
        self.queues.add(task.queue)

    def leave(self, task: TaskRow) -> None:
        """Give up the lease; the state is the one before the start."""
        self._leave(task.seq)
        task.worker = task.started_at = None
        task.state, task.updated_at = waiting_state(task.attempt).value, self.now
        self.change(task)

    def wait_again(self, task: TaskRow, due_at: float) -> None:
        self.leave(task)
        self.enter(task, due_at)

    def cancel(self, task: TaskRow, error: TaskError, *, is_revivable: bool = False, passes: bool = False) -> None:
        self._close(task, "cancelled", error)
        self.change(task, ended_at=self.now, keeps_body=is_revivable)
        if passes:
            self.add["task_pass"]((task.seq,))
        if task.awaited:
            (self.succeeded if passes else self.failed).append(task.seq)

    def succeed(self, task: TaskRow, payload: msgspec.Raw) -> None:
        self._changed.pop(task.seq, None)
        self._leave(task.seq)
        self._free_key(task, is_cancelled=False)
        row = (task.fence, task.started_at, self.now, task.worker, task.meta, bytes(payload), task.seq)
        self.add["task_done_noted"](row)
        self._topics.add("done")
        if task.awaited:
            self.succeeded.append(task.seq)

    def succeed_fast(self, row: LeasedRow, payload: msgspec.Raw, worker: str, ran_seconds: float | None) -> None:
        """The most frequent ending by far: no detour here that it does not need."""
        seq, id, name, queue, state, attempt, fence, enqueued_at, started_at, _, awaited = row
        now = self.now
        if ran_seconds is not None and state != "running":
            started_at = moment(now - ran_seconds)
            self.add_line(("started", started_at, id, name, queue, attempt, worker, enqueued_at, started_at, None))
        self.add_line(("succeeded", now, id, name, queue, attempt, worker, enqueued_at, started_at, None))
        # A bytearray, because sqlite3 asks its adapters what to make of bytes.
        self._done((fence, started_at, now, worker, bytearray(payload), seq))
        self._leave(seq)
        if awaited:
            self.succeeded.append(seq)

    def fail(self, task: TaskRow, settlement: Dead, facts: dict[str, Any] | None = None) -> None:
        """The envelope stays, so that the letter can be replayed."""
        self._close(task, "failed", settlement.error)
        self.change(task)
        if task.awaited:
            self.failed.append(task.seq)
        self._dead.append((task.seq, task.queue, task.name, settlement.reason, json_or_none(settlement.meta), self.now))
        for kind in event_kinds(settlement):
            self.tell(kind.value, task, self.now, event_data(settlement, facts))

    def write(self, connection: sqlite3.Connection | sqlite3.Cursor) -> None:
        if self._without_tenant:
            self._add_tenants(connection)
        for task, ended_at, keeps_body in self._changed.values():
            self.add["task_change"](_change_row(task, ended_at, keeps_body))
        if self._left:
            connection.execute(SQL["lease_delete"], (json_text(self._left),))
        if self._rows["task_done"]:
            self._topics.add("done")
        for name, rows in self._rows.items():
            if rows:
                connection.executemany(SQL[name], rows)
        if self.awaited:
            connection.execute(SQL["task_await"], (json_text(self.awaited),))
        if self._dead:
            number = self._namespace.first + self._namespace.take_numbers(connection, "dead", len(self._dead))
            connection.executemany(SQL["dead_insert"], [(number + i, *row) for i, row in enumerate(self._dead)])
        if self._lines:
            event_rows.append(connection, self._namespace, self._lines)
            self._topics.add("events")
        written: list[list[Any]] = [self._lines, self._without_tenant, self._dead, self._left, self.awaited]
        for rows in (*self._rows.values(), *written):
            rows.clear()
        self._changed.clear()

    def _add_tenants(self, connection: sqlite3.Connection | sqlite3.Cursor) -> None:
        """Looked up before anything is written, because the end of a task drops its envelope."""
        wanted = json_text([seq for _, seq in self._without_tenant])
        tenants = {seq: tenant_of(body) for seq, body in connection.execute(SQL["task_tenants"], (wanted,))}
        for index, seq in self._without_tenant if tenants else ():
            if tenant := tenants.get(seq):
                line = self._lines[index]
                self._lines[index] = (*line[:-1], {"tenant": tenant, **(line[-1] or {})})

    def _close(self, task: TaskRow, state: str, error: TaskError | None) -> None:
        self._leave(task.seq)
        task.state, task.finished_at, task.updated_at = state, self.now, self.now
        task.error = None if error is None else msgspec.json.encode(error)
        self._free_key(task, is_cancelled=state == "cancelled")
        self._topics.add("done")

    def _free_key(self, task: TaskRow, *, is_cancelled: bool) -> None:
        if task.unique_key is not None:
            self.add["unique_free"]((self._namespace.ns, task.unique_key, task.id, is_cancelled))


def _change_row(task: TaskRow, ended_at: float | None, keeps_body: bool) -> Row:
    return (
        task.state, task.attempt, task.fence, task.deaths, task.updated_at, task.started_at, task.finished_at,
        task.heartbeat_at, ended_at, task.expires_at, task.worker, task.unique_key, task.error, task.meta, keeps_body,
        task.seq,
    )  # fmt: skip
