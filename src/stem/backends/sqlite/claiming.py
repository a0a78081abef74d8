"""Lease what is due, in order; make the delayed ready and end the expired on the way."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from stem.backends.sqlite.draft import Draft
from stem.backends.sqlite.space import Space
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.task import by_seq
from stem.core.delivery import Delivery, Lease
from stem.core.record import TaskError

# So many delayed tasks of a queue become ready in one claim: when a million fall due together, no claim takes seconds.
_PROMOTED_AT_ONCE = 5_000
_EXPIRED = TaskError("Expired", "It expired before it could start.")


def claim(space: Space, queues: Sequence[str], limit: int, lease_seconds: float) -> list[Delivery]:
    if limit <= 0 or not any_due(space, queues):
        return []  # an idle worker never takes the writers' lock
    with space.file.writing() as connection:
        now = space.now()
        for queue in queues:
            _promote(connection, space.ns, queue, now)
        deliveries: list[Delivery] = []
        leased: list[tuple[int, int, float]] = []
        expired: list[int] = []
        fence = space.take_numbers(connection, "fence")
        while len(deliveries) < limit:
            taken = _take(connection, space.ns, queues, limit - len(deliveries))
            if not taken:
                break
            for _, seq, id, name, queue, attempt, deaths, visibility_timeout, expires_at, body in taken:
                if expires_at is not None and expires_at <= now:
                    expired.append(seq)
                else:
                    leased.append((seq, fence, now + (visibility_timeout or lease_seconds)))
                    deliveries.append(Delivery(Lease(id, fence), name, queue, attempt, deaths, body))
        connection.executemany(SQL["lease_insert"], leased)
        topics = _expire(connection, space, expired, now)
    space.ring(topics)
    return deliveries


def wait(space: Space, queues: Sequence[str], timeout_seconds: float) -> bool:
    def until_due() -> float:
        with space.file.reading() as connection:
            moments = [connection.execute(SQL["delayed_next"], (space.ns, queue)).fetchone()[0] for queue in queues]
        return min((moment for moment in moments if moment is not None), default=float("inf")) - space.clock()

    topics = {f"queue:{queue}" for queue in queues}
    return space.sleep_until(lambda: any_due(space, queues), timeout_seconds, topics, until_due)


def any_due(space: Space, queues: Sequence[str]) -> bool:
    now = space.now()
    with space.file.reading() as connection:
        return any(connection.execute(SQL["ready_any"], (space.ns, queue, now)).fetchone()[0] for queue in queues)


def _promote(connection: sqlite3.Connection, ns: int, queue: str, now: float) -> None:
    due = connection.execute(SQL["delayed_due"], (ns, queue, now, _PROMOTED_AT_ONCE)).fetchall()
    if due:
        connection.executemany(SQL["ready_insert"], due)
        connection.executemany(SQL["delayed_delete"], [(ns, queue, due_at, seq) for _, _, _, seq, due_at in due])


def _take(connection: sqlite3.Connection, ns: int, queues: Sequence[str], limit: int) -> list[tuple[Any, ...]]:
    """The best of all queues together, gone from them. Each gives from its front, so what goes is all before its last."""
    best: list[tuple[Any, ...]] = []
    for queue in queues:
        best += connection.execute(SQL["ready_top"], (ns, queue, limit)).fetchall()
    if len(queues) > 1:
        best = sorted(best, key=lambda row: row[:2])[:limit]
    last = {row[4]: (ns, row[4], row[0], row[1]) for row in best}
    connection.executemany(SQL["ready_take"], list(last.values()))
    return best


def _expire(connection: sqlite3.Connection, space: Space, seqs: list[int], now: float) -> set[str]:
    if not seqs:
        return set()
    draft = Draft(space, now)
    for task in by_seq(connection, seqs):
        draft.end(task, "cancelled", _EXPIRED)
        draft.tell("expired", task, now)
    draft.write(connection)
    return draft.topics
