"""Let tasks wait for others: new ones, and running ones that block."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks import retention
from stem.backends.sqlite.tasks.releasing import Facts, cancel, cancel_for, join
from stem.backends.sqlite.tasks.task_row import TaskRow, json_text
from stem.backends.sqlite.tasks.write_batch import WriteBatch
from stem.backends.tenants import tenant_data
from stem.core.envelope import Push
from stem.core.errors import StoreRefused
from stem.core.prerequisites import JOINS, NOT_NEEDED, SPAWNED, Effect, OnFailure, effect

_PUSHED, _BLOCKED = 1, 2  # rounds: a task waits when it is pushed, and may block once more when it runs
_WAITING = ("queued", "retried", "running")

# The columns of task_insert: seq, id, name, queue, priority, now, expires at, visibility timeout, unique key, meta, body.
NewRow = tuple[int, str, str, str, int, float, float | None, float | None, str | None, bytes | None, bytes]


@dataclass(slots=True)
class Prerequisite:
    """A task that others shall wait for, as it is at this point of the transaction."""

    seq: int
    id: str
    name: str
    state: str = "queued"
    error: bytes | None = None
    has_succeeded: bool = False
    is_marked: bool = True  # as one that others wait for
    is_marked_here: bool = False  # in this transaction


@dataclass(frozen=True, slots=True)
class Wait:
    """How a task waits and goes on: `delay_seconds` count from its release, else it is due at `due_at`."""

    round: int
    on_failure: OnFailure
    delay_seconds: float | None
    due_at: float


def linked(pushes: Iterable[Push]) -> list[Push]:
    """Those that wait for others, or that others wait for from now on. Every push is looked at, so this is quick."""
    return [push for push in pushes if (sent := push.envelope).after or sent.name in JOINS or push.into is not None]


class Linking:
    """The waits that one transaction begins. Prerequisites are looked up once, then followed here as the batch grows."""

    def __init__(
        self,
        namespace: SqliteNamespace,
        batch: WriteBatch,
        connection: sqlite3.Cursor,
        wanted: Iterable[str],
        new_ids: set[str],
    ) -> None:
        self._ns = namespace.ns
        self._batch = batch
        self._connection = connection
        self._wanted = frozenset(wanted)
        self._joins: dict[str, tuple[TaskRow, int]] = {}  # that get more members, and the rounds of their waits
        self._spawned: dict[str, dict[str, bool]] = {}
        self.ended: dict[str, bool] = {}  # tasks that ended as they were pushed: whether they were cancelled
        horizon = batch.now - namespace.retention.results_seconds
        self._found = self._find([id for id in self._wanted if id not in new_ids], horizon)

    def store(self, push: Push, row: NewRow) -> bool:
        """Store a pushed task, given as the columns of task_insert, and let it wait; False if it need not."""
        envelope = push.envelope
        awaited = 1 if push.into is not None or envelope.id in self._wanted else None
        joins = 1 if envelope.name in JOINS else None
        self._batch.add["task_insert_linked"]((*row, awaited, joins))
        task = _task(row, awaited, joins)
        if envelope.id in self._wanted:
            self._found[task.id] = Prerequisite(task.seq, task.id, task.name)
        if push.into is not None:
            self._spawn(task, push.into)
        if not (envelope.after or joins):
            return False
        facts = tenant_data(envelope) if envelope.headers else None
        due_at = self._batch.now if envelope.not_before is None else envelope.not_before.timestamp()
        wait = Wait(_PUSHED, envelope.on_failure, push.delay_seconds, due_at)
        return self._wait(task, envelope.after, wait, envelope.args, facts)

    def block(self, task: TaskRow, after: Sequence[str]) -> None:
        """Let a running task wait, and end when these have ended."""
        task.joins = 1
        self._batch.add["task_join"]((task.seq,))
        self._wait(task, after, Wait(_BLOCKED, OnFailure.CANCEL, None, self._batch.now), None, None)

    def settled(self, task_id: str, state: str, error: bytes | None, *, has_succeeded: bool) -> None:
        """A task has been settled in this transaction. If others wait for it since a moment ago, its row did not say so."""
        self.changed(task_id, state, error, has_succeeded=has_succeeded)
        if (known := self._found.get(task_id)) is not None and known.is_marked_here:
            (self._batch.succeeded if has_succeeded else self._batch.failed).append(known.seq)

    def changed(self, task_id: str, state: str, error: bytes | None, *, has_succeeded: bool) -> None:
        """A task has ended in this transaction."""
        if (known := self._found.get(task_id)) is not None:
            known.state, known.error, known.has_succeeded = state, error, has_succeeded

    def close(self) -> None:
        """Before the batch is written."""
        for id, names in self._spawned.items():
            task, _ = self._joins[id]
            task.merge_meta(names)
            self._batch.add["blocked_more"]((len(names), task.seq))
            self._batch.add["task_meta"]((task.meta, task.seq))
        self._spawned.clear()

    def _find(self, ids: list[str], horizon: float) -> dict[str, Prerequisite]:
        given = (self._ns, json_text(ids), horizon)
        rows = self._connection.execute(SQL["prerequisite_get"], given).fetchall() if ids else []
        outlived = [(row[0], row[6]) for row in rows if row[7]]
        gone = set(retention.unneeded(self._connection, outlived, horizon)) if outlived else ()
        return {
            id: Prerequisite(seq, id, name, state, error, bool(has_succeeded), bool(awaited))
            for seq, id, name, state, error, has_succeeded, awaited, _ in rows
            if seq not in gone
        }

    def _wait(
        self, task: TaskRow, after: Sequence[str], wait: Wait, args: msgspec.Raw | None, facts: Facts | None
    ) -> bool:
        batch = self._batch
        found = [self._prerequisite(task, id) for id in dict.fromkeys(after)]
        missing, failed, is_released = self._look(task, found, wait)
        if is_released and not task.joins:
            return False
        if is_released:
            self._join(task, args, facts)
        elif failed is not None:
            self._add_wait(task, wait, missing, is_waiting=False)
            cancel_for(batch, task, (failed.id, failed.name, failed.state, failed.error), facts)
        elif missing:
            self._add_wait(task, wait, missing, is_waiting=True)
            if wait.round == _PUSHED:  # a settlement has told it
                batch.tell("blocked", task, batch.now, {**(facts or {}), "missing": missing})
        elif wait.on_failure is OnFailure.ONLY and found:
            cancel(batch, task, NOT_NEEDED, facts)
        elif task.joins:
            self._join(task, args, facts)
        else:
            return False
        if task.state == "cancelled":
            self.ended[task.id] = True
            self.changed(task.id, "cancelled", task.error, has_succeeded=False)
        return True

    def _join(self, task: TaskRow, args: msgspec.Raw | None, facts: Facts | None) -> None:
        join(self._batch, task, args, facts)
        self.ended[task.id] = False
        self.changed(task.id, "succeeded", None, has_succeeded=True)

    def _look(self, task: TaskRow, found: list[Prerequisite], wait: Wait) -> tuple[int, Prerequisite | None, bool]:
        """How many are missing, the first that has failed, and whether a failure releases the task; all are remembered."""
        missing, failed, is_released = 0, None, False
        add_edge = self._batch.add["edge_insert"]
        for each in found:
            is_pending = each.state in _WAITING
            if not is_pending:
                match effect(wait.on_failure, has_succeeded=each.has_succeeded):
                    case Effect.RELEASE:
                        is_released = True
                    case Effect.CANCEL:
                        is_pending, failed = True, failed or each
                    case Effect.COUNT:
                        pass
            missing += is_pending
            add_edge((each.seq, task.seq, wait.round if is_pending else 0))
        return missing, failed, is_released

    def _prerequisite(self, task: TaskRow, id: str) -> Prerequisite:
        found = self._found.get(id)
        if found is None or found.seq == task.seq:
            raise StoreRefused(
                f"There is no task {id} to wait for; nothing was stored. Enqueue it first, or in the same call."
            )
        if not found.is_marked:
            found.is_marked = found.is_marked_here = True
            self._batch.awaited.append(found.seq)
        return found

    def _add_wait(self, task: TaskRow, wait: Wait, missing: int, *, is_waiting: bool) -> None:
        how = (wait.on_failure.value, wait.delay_seconds, wait.due_at)
        self._batch.add["blocked_insert"]((task.seq, self._ns, task.queue, wait.round, missing, is_waiting, *how))

    def _spawn(self, task: TaskRow, into: str) -> None:
        if into not in self._joins:
            row = self._connection.execute(SQL["blocked_join"], (self._ns, into)).fetchone()
            if row is None or row[2] not in JOINS:
                raise StoreRefused(f"There is no join {into} that still waits for its members; nothing was stored.")
            self._joins[into] = (TaskRow(*row[:-1]), row[-1])
        join, round = self._joins[into]
        self._spawned.setdefault(into, {})[SPAWNED + task.id] = True
        self._batch.add["edge_insert"]((task.seq, join.seq, round))


def _task(row: NewRow, awaited: int | None, joins: int | None) -> TaskRow:
    seq, id, name, queue, priority, now, expires_at, visibility_timeout, unique_key, meta, _ = row
    return TaskRow(
        seq, id, name, queue, priority, "queued", 0, 0, 0, now, now,
        expires_at=expires_at, visibility_timeout=visibility_timeout, unique_key=unique_key, meta=meta,
        awaited=awaited, joins=joins,
    )  # fmt: skip
