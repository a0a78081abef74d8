"""Lease what is due, in order; make the delayed ready and end the expired on the way."""

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from types import NoneType
from typing import Any

from stem.backends.sqlite.draft import Draft
from stem.backends.sqlite.space import Space
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.task import by_seq, json_text
from stem.core.delivery import Delivery, Lease
from stem.core.record import TaskError

# So much is made ready, or ended because it expired, in one transaction: others can write in between.
_PROMOTED_AT_ONCE = 5_000
_EXPIRED_AT_ONCE = 1_000
_PROMOTING_STEPS = 20  # when a million fall due together, no claim makes all of them ready
_LOOKED_AT_AGAIN = 100  # at least, once some had expired: where one has, more have
_TIMES = (float, NoneType)
_EXPIRED = TaskError("Expired", "It expired before it could start.")


def claim(space: Space, queues: Sequence[str], limit: int, lease_seconds: float) -> list[Delivery]:
    """Priority counts among all that is due, or the first 100,000 of it where more fall due since the last claim."""
    if limit <= 0 or not any_due(space, queues):
        return []  # an idle worker never takes the writers' lock
    steps_left = _PROMOTING_STEPS
    while True:
        with space.file.writing() as connection:
            now = space.now()
            steps_left -= 1
            if _promote(connection, space.ns, queues, now) and steps_left > 0:
                continue
            deliveries, topics, is_over = _lease(connection, space, queues, limit, lease_seconds, now)
        space.ring(topics)
        if deliveries or is_over:
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


def _promote(connection: sqlite3.Connection, ns: int, queues: Sequence[str], now: float) -> bool:
    """Make the due ready; True if there may be more of them."""
    left = _PROMOTED_AT_ONCE
    for queue in queues:
        due = connection.execute(SQL["delayed_due"], (ns, queue, now, left)).fetchall()
        if due:
            connection.executemany(SQL["ready_insert"], due)
            connection.executemany(SQL["delayed_delete"], [(ns, queue, due_at, seq) for _, _, _, seq, due_at in due])
        left -= len(due)
        if left <= 0:
            return True
    return False


def _lease(
    connection: sqlite3.Connection, space: Space, queues: Sequence[str], limit: int, lease_seconds: float, now: float
) -> tuple[list[Delivery], set[str], bool]:
    """What was leased, whom to ring, and whether that is all: not if too much had expired for one transaction."""
    deliveries: list[Delivery] = []
    leased: defaultdict[float, list[int]] = defaultdict(list)  # by when the lease ends
    expired: list[int] = []
    is_over = False
    fence = space.take_numbers(connection, "fence")
    while len(deliveries) < limit and len(expired) < _EXPIRED_AT_ONCE and not is_over:
        left = limit - len(deliveries)
        front = _front(connection, space.ns, queues, max(left, _LOOKED_AT_AGAIN) if expired else left)
        is_over = not front
        taken: dict[str, tuple[int, str, int, int]] = {}
        for rank, seq, id, name, queue, attempt, deaths, visibility_timeout, expires_at, body in front:
            if len(deliveries) == limit:
                break
            taken[queue] = (space.ns, queue, rank, seq)  # each gives from its front, so what goes is all up to here
            if (
                type(body) is not bytes
                or type(attempt) is not int
                or type(deaths) is not int
                or type(name) is not str
                or type(expires_at) not in _TIMES
                or type(visibility_timeout) not in _TIMES
            ):
                name, attempt, deaths = connection.execute(SQL["task_mend"], (seq,)).fetchone()
                visibility_timeout, expires_at, body = None, None, b""  # which the worker parks as unreadable
            if expires_at is not None and expires_at <= now:
                expired.append(seq)
            else:
                leased[now + (visibility_timeout or lease_seconds)].append(seq)
                deliveries.append(Delivery(Lease(id, fence), name, queue, attempt, deaths, body))
        connection.executemany(SQL["ready_take"], list(taken.values()))
    for leased_until, seqs in leased.items():
        connection.execute(SQL["lease_insert"], (json_text(seqs), fence, leased_until))
    return deliveries, _expire(connection, space, expired, now), is_over


def _front(connection: sqlite3.Connection, ns: int, queues: Sequence[str], limit: int) -> list[tuple[Any, ...]]:
    """The best of all queues together. Of several, only the chosen are read whole."""
    if len(queues) == 1:
        return connection.execute(SQL["ready_top"], (ns, queues[0], limit)).fetchall()
    places: list[tuple[int, int]] = []
    for queue in queues:
        places += connection.execute(SQL["ready_places"], (ns, queue, limit)).fetchall()
    chosen = sorted(places)[:limit]
    return connection.execute(SQL["ready_chosen"], (json_text(chosen),)).fetchall()


def _expire(connection: sqlite3.Connection, space: Space, seqs: list[int], now: float) -> set[str]:
    if not seqs:
        return set()
    draft = Draft(space, now)
    for task in by_seq(connection, seqs):
        draft.end(task, "cancelled", _EXPIRED)
        draft.tell("expired", task, now)
    draft.write(connection)
    return draft.topics
