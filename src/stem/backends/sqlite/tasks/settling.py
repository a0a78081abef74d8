"""Settle leased tasks: write their endings."""

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks import cascading
from stem.backends.sqlite.tasks.pushing import Pushing
from stem.backends.sqlite.tasks.task_row import FENCE, SEQ, UNIQUE_KEY, LeasedRow, TaskRow, by_seq, leased
from stem.backends.sqlite.tasks.write_batch import WriteBatch
from stem.contracts.steps import EVENT
from stem.core import envelope as envelopes
from stem.core.delivery import Ending, Lease
from stem.core.envelope import Push
from stem.core.event import event_data, event_kinds
from stem.core.outcome import Block, Cancelled, Dead, Done, Requeue, Retry
from stem.core.record import TaskError


def settle(namespace: SqliteNamespace, endings: Sequence[Ending], worker: str) -> list[Lease]:
    if not endings:
        return []
    refused: list[Lease] = []
    # Encoded before the lock: others can write meanwhile, and what cannot be encoded changes nothing.
    follow_ups = [push for ending in endings for push in ending.follow_ups]
    bodies = iter([envelopes.encode(push.envelope) for push in follow_ups])
    with namespace.database.writing() as connection:
        batch = WriteBatch(namespace, namespace.now())
        rows = leased(connection, namespace.ns, [ending.lease for ending in endings])
        tasks = _tasks(connection, rows, endings)
        blocks = [ending.settlement for ending in endings if type(ending.settlement) is Block]
        pushing = None
        if follow_ups or blocks:
            pushing = Pushing(namespace, batch, connection.cursor(), follow_ups, blocks=blocks)
        for ending in endings:
            lease, pushes = ending.lease, [(push, next(bodies)) for push in ending.follow_ups] if follow_ups else ()
            row = rows.get(lease.id)
            is_superseded = pushing is not None and lease.id in pushing.cancelled
            if row is None or row[FENCE] != lease.fence or is_superseded:
                refused.append(lease)
                continue
            del rows[lease.id]  # a lease is good for one ending
            if row[SEQ] in tasks:
                _settle(batch, tasks[row[SEQ]], ending, worker, pushing, connection)
            elif isinstance(ending.settlement, Done):
                batch.succeed_fast(row, ending.settlement.payload, worker, ending.run_seconds)
            if pushing is not None:
                _follow_up(batch, ending, worker, pushing, pushes, tasks.get(row[SEQ]))
        if pushing is not None:
            pushing.close()
        cascading.finish(connection, batch)
    namespace.ring(batch.topics)
    return refused


def _follow_up(
    batch: WriteBatch,
    ending: Ending,
    worker: str,
    pushing: Pushing,
    pushes: Iterable[tuple[Push, bytes]],
    task: TaskRow | None,
) -> None:
    """Push what follows a settled task; if the task is to be blocked, that comes last, as it may wait for what was pushed."""
    linking, settlement = pushing.linking, ending.settlement
    if linking is not None and isinstance(settlement, Done):
        linking.settled(ending.lease.id, "succeeded", None, has_succeeded=True)
    elif linking is not None and task is not None and task.state in ("failed", "cancelled"):
        passes = isinstance(settlement, Cancelled) and settlement.passes
        linking.settled(task.id, task.state, task.error, has_succeeded=passes)
    for push, body in pushes:
        pushing.push(push, body)
    if linking is not None and task is not None and isinstance(settlement, Block):
        _begin_ending(batch, task, ending, worker)
        batch.leave(task)
        linking.block(task, settlement.after)


def _tasks(connection: sqlite3.Connection, rows: dict[str, LeasedRow], endings: Sequence[Ending]) -> dict[int, TaskRow]:
    """Those that need more than what plain successes need, whole."""
    wanted = {}
    for ending in endings:
        row = rows.get(ending.lease.id)
        if row is not None and (
            row[UNIQUE_KEY] is not None or ending.meta or ending.facts or type(ending.settlement) is not Done
        ):
            wanted[row[SEQ]] = row[FENCE]
    tasks = by_seq(connection, list(wanted)) if wanted else []
    for task in tasks:
        task.fence = wanted[task.seq]
    return {task.seq: task for task in tasks}


def _settle(
    batch: WriteBatch,
    task: TaskRow,
    ending: Ending,
    worker: str,
    pushing: Pushing | None,
    connection: sqlite3.Connection,
) -> None:
    now, settlement = batch.now, ending.settlement
    if isinstance(settlement, Block):
        return  # which comes after its follow-ups
    if pushing is not None and not isinstance(settlement, Retry | Requeue):
        pushing.released(task)
    _begin_ending(batch, task, ending, worker)
    match settlement:
        case Done(payload):
            batch.succeed(task, payload)
        case Retry(seconds, error):
            task.attempt += 1
            task.error = msgspec.json.encode(error)
            batch.wait_again(task, now + seconds)
        case Dead():
            batch.fail(task, settlement, ending.facts)
        case Requeue():
            _requeue(batch, task, settlement, connection)
        case Cancelled(reason, passes):
            if pushing is not None:
                pushing.cancelled.add(task.id)
            batch.cancel(task, TaskError("Cancelled", reason), passes=passes)


def _begin_ending(batch: WriteBatch, task: TaskRow, ending: Ending, worker: str) -> None:
    """What all endings have in common; the events of a dead letter are told with it."""
    if ending.run_seconds is not None and task.state != "running":
        batch.start(task, worker, ending.run_seconds)
    task.worker = worker
    if ending.meta:
        task.merge_meta(ending.meta)
    task.updated_at = batch.now
    settlement = ending.settlement
    if not isinstance(settlement, Dead):
        batch.tell(event_kinds(settlement)[0].value, task, batch.now, event_data(settlement, ending.facts) or None)


def _requeue(batch: WriteBatch, task: TaskRow, settlement: Requeue, connection: sqlite3.Connection) -> None:
    task.deaths += settlement.died
    event, due_at = settlement.event, batch.now + settlement.delay_seconds
    if event is not None:
        if connection.execute(SQL["step_any"], (task.seq, EVENT + event)).fetchone()[0]:
            due_at = batch.now
        else:
            connection.execute(SQL["event_wait_put"], (task.seq, event, due_at))
    batch.wait_again(task, due_at)
