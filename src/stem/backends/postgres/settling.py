"""Settle tasks together with what follows from it: pushes, and waiting for them."""

from collections.abc import Sequence
from typing import Any

from stem.backends.postgres.codec.push_columns import push
from stem.backends.postgres.codec.settle_columns import blocked_columns, settle_columns
from stem.backends.postgres.connection.deadline_connection import DeadlineConnection, Row
from stem.backends.postgres.namespace import PostgresNamespace
from stem.backends.postgres.notify.notifier import Notification, notification
from stem.backends.postgres.statements import call
from stem.core.delivery import Ending
from stem.core.errors import StoreRefused
from stem.core.outcome import Block, Requeue, Retry


def settled_change(batch: Sequence[Ending]) -> Notification:
    """What changes with these endings themselves."""
    ended = [each.lease.id for each in batch if not isinstance(each.settlement, Retry | Requeue | Block)]
    return notification(ended=ended, any_queue=any(isinstance(e.settlement, Retry | Requeue) for e in batch))


class FollowedSettlement:
    """A batch of endings, some of them with follow-ups or waiting for other tasks, in one transaction.

    What the ends mean for other tasks comes last: a follow-up may be added to a join that would have ended before.
    """

    def __init__(self, namespace: PostgresNamespace, batch: list[Ending], worker: str) -> None:
        self._namespace = namespace
        self._batch = batch
        self._worker = worker

    def write(self, conn: DeadlineConnection) -> tuple[list[int] | None, Notification]:
        """The places of the held leases, None for all, and what has changed. Raises StoreRefused."""
        function, columns = settle_columns(self._batch)
        held: list[int] | None = self._call(conn, function, self._worker, *columns, True)[0]
        accepted = self._batch if held is None else [self._batch[place - 1] for place in sorted(held)]
        change = settled_change(accepted)
        if follow_ups := [follow_up for ending in accepted for follow_up in ending.follow_ups]:
            change.add(push(lambda q, v: conn.execute(q, v).fetchall(), self._namespace, follow_ups).change)
        blocked = [(e.lease.id, e.settlement) for e in accepted if isinstance(e.settlement, Block)]
        if blocked:
            ttl = self._namespace.retention.results_seconds
            (unknown,) = self._call(conn, "settle_blocked", *blocked_columns(blocked), ttl)
            if unknown is not None:
                raise StoreRefused(
                    f"There is no task {unknown} to wait for; nothing was stored. Enqueue it first, or in the same call."
                )
        ended = [e.lease.id for e in accepted if not isinstance(e.settlement, Retry | Requeue)]
        released, told = self._call(conn, "carry_on", ended)
        change.add(notification(released, ended=[*told, *(id for id, _ in blocked)]))
        return held, change

    def _call(self, conn: DeadlineConnection, function: str, *values: Any) -> Row:
        query = call(function, len(values) + 1, self._namespace.schema)
        row: Row = conn.execute(query, (self._namespace.name, *values)).fetchall()[0]
        return row
