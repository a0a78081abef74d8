"""Claim due tasks in order. Delayed tasks that fell due become ready, and expired ones are ended on the way."""

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from types import NoneType
from typing import Any

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks import cascading
from stem.backends.sqlite.tasks.task_row import TOP_PRIORITY, by_seq, json_text
from stem.backends.sqlite.tasks.write_batch import WriteBatch
from stem.core.delivery import TWO_PRIORITIES, Delivery, Lease
from stem.core.record import TaskError

# So much is made ready, or ended because it expired, in one transaction: others can write in between.
_PROMOTED_AT_ONCE = 5_000
_EXPIRED_AT_ONCE = 1_000
_PROMOTING_STEPS = 20  # when a million fall due together, no claim makes all of them ready
_LOOKED_AT_AGAIN = 100  # at least, once some had expired: where one has, more have
_TIMES = (float, NoneType)
_EXPIRED = TaskError("Expired", "It expired before it could start.")


def claim(namespace: SqliteNamespace, queues: Sequence[str], limit: int, lease_seconds: float) -> list[Delivery]:
    """Priority counts among all that is due, or the first 100,000 of it where more fall due since the last claim."""
    if limit <= 0 or not any_due(namespace, queues):
        return []  # an idle worker never takes the writers' lock
    steps_left = _PROMOTING_STEPS
    while True:
        with namespace.database.writing() as connection:
            now = namespace.now()
            steps_left -= 1
            if _promote(connection, namespace.ns, queues, now) and steps_left > 0:
                continue
            deliveries, topics, is_over = _lease(connection, namespace, queues, limit, lease_seconds, now)
        namespace.ring(topics)
        if deliveries or is_over:
            return deliveries


def wait(namespace: SqliteNamespace, queues: Sequence[str], timeout_seconds: float) -> bool:
    def until_due() -> float:
        with namespace.database.reading() as connection:
            moments = [connection.execute(SQL["delayed_next"], (namespace.ns, queue)).fetchone()[0] for queue in queues]
        return min((moment for moment in moments if moment is not None), default=float("inf")) - namespace.clock()

    topics = {f"queue:{queue}" for queue in queues}
    return namespace.sleep_until(lambda: any_due(namespace, queues), timeout_seconds, topics, until_due)


def any_due(namespace: SqliteNamespace, queues: Sequence[str]) -> bool:
    now = namespace.now()
    with namespace.database.reading() as connection:
        return any(connection.execute(SQL["ready_any"], (namespace.ns, queue, now)).fetchone()[0] for queue in queues)


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
    connection: sqlite3.Connection,
    namespace: SqliteNamespace,
    queues: Sequence[str],
    limit: int,
    lease_seconds: float,
    now: float,
) -> tuple[list[Delivery], set[str], bool]:
    """The deliveries, the topics to ring, and whether the claim is complete: not if too much had expired for one transaction."""
    deliveries: list[Delivery] = []
    leased: defaultdict[float, list[int]] = defaultdict(list)  # by when the lease ends
    expired: list[int] = []
    is_over = False
    fence = namespace.take_numbers(connection, "fence")
    while len(deliveries) < limit and len(expired) < _EXPIRED_AT_ONCE and not is_over:
        left = limit - len(deliveries)
        front = _front(connection, namespace.ns, queues, max(left, _LOOKED_AT_AGAIN) if expired else left)
        is_over = not front
        taken: dict[str, tuple[int, str, int, int]] = {}
        for (rank, seq, queue, id, name, own_queue, priority, attempt, deaths, visibility_timeout, expires_at,
             body) in front:  # fmt: skip
            if len(deliveries) == limit:
                break
            taken[queue] = (namespace.ns, queue, rank, seq)  # each gives from its front, so what goes is all up to here
            if (
                type(body) is not bytes
                or type(attempt) is not int
                or type(deaths) is not int
                or type(name) is not str
                or type(id) is not str
                or type(own_queue) is not str
                or type(expires_at) not in _TIMES
                or type(visibility_timeout) not in _TIMES
            ):
                id, name = _text(id), _text(name)
                ((attempt, deaths),) = connection.execute(SQL["task_repair"], (seq, id, name, queue)).fetchall()
                visibility_timeout, expires_at, body = None, None, b""  # which the worker parks as unreadable
            if expires_at is not None and expires_at <= now:
                expired.append(seq)
            else:
                leased[now + (visibility_timeout or lease_seconds)].append(seq)
                if type(priority) is not int or rank != TOP_PRIORITY - priority:
                    priority = TWO_PRIORITIES
                deliveries.append(Delivery(Lease(id, fence), name, queue, attempt, deaths, body, priority))
        connection.executemany(SQL["ready_take"], list(taken.values()))
    for leased_until, seqs in leased.items():
        connection.execute(SQL["lease_insert"], (json_text(seqs), fence, leased_until))
    return deliveries, _expire(connection, namespace, expired, now), is_over


def _front(connection: sqlite3.Connection, ns: int, queues: Sequence[str], limit: int) -> list[tuple[Any, ...]]:
    """The best of all queues together. Of several, only the chosen are read whole."""
    if len(queues) == 1:
        return _readable(connection, "ready_top", (ns, queues[0], limit))
    places: list[tuple[int, int, str]] = []
    for queue in queues:
        places += connection.execute(SQL["ready_places"], (ns, queue, limit)).fetchall()
    chosen = sorted(places)[:limit]
    return _readable(connection, "ready_chosen", (json_text(chosen),))


def _readable(connection: sqlite3.Connection, statement: str, given: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The rows of the statement. Text that is not UTF-8, which only a hand can have written, comes as bytes."""
    try:
        return connection.execute(SQL[statement], given).fetchall()
    except sqlite3.OperationalError as error:
        if "UTF-8" not in str(error):
            raise
    factory, connection.text_factory = connection.text_factory, _text_or_bytes
    try:
        return connection.execute(SQL[statement], given).fetchall()
    finally:
        connection.text_factory = factory


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _text_or_bytes(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _expire(connection: sqlite3.Connection, namespace: SqliteNamespace, seqs: list[int], now: float) -> set[str]:
    if not seqs:
        return set()
    batch = WriteBatch(namespace, now)
    for task in by_seq(connection, seqs):
        batch.cancel(task, _EXPIRED)
        batch.tell("expired", task, now)
    cascading.finish(connection, batch)
    return batch.topics
