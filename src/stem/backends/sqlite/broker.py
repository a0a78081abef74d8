"""Push, claim, renew and settle tasks in an SQLite file."""

import sqlite3
from collections.abc import Callable, Sequence

from stem.backends.sqlite.connection.caller_transaction import joined
from stem.backends.sqlite.connection.errors import translated
from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.pruning import Pruner
from stem.backends.sqlite.tasks import cascading, claiming, insert_dead, reclaiming, settling, waiting
from stem.backends.sqlite.tasks.pushing import Pushing
from stem.backends.sqlite.tasks.task_row import TaskRow, held
from stem.backends.sqlite.tasks.write_batch import WriteBatch
from stem.contracts.broker import Broker
from stem.core import envelope as envelopes
from stem.core.decisions.settle import MAX_DEATHS
from stem.core.delivery import DeadCall, Delivery, Depth, Ending, Lease, Peeked, Reclaimed, Report, begun_ago, survivors
from stem.core.envelope import Push, Receipt


class SqliteBroker(Broker):
    def __init__(self, namespace: SqliteNamespace, pruner: Pruner) -> None:
        self._namespace = namespace
        self._pruner = pruner

    def push(self, pushes: Sequence[Push], *, connection: object | None = None) -> list[Receipt]:
        if not pushes:
            return []
        bodies = [envelopes.encode(push.envelope) for push in pushes]
        if connection is not None:
            with translated(self._namespace.database.path), joined(connection, self._namespace.database.path) as cursor:
                # No ring: the commit is the caller's, and sleepers look for it.
                receipts, _ = self.push_in(cursor, pushes, bodies)
                return receipts
        with self._namespace.database.writing() as own:
            receipts, batch = self.push_in(own.cursor(), pushes, bodies)
        self._namespace.ring(batch.topics)
        self._pruner.prune_now_and_then()
        return receipts

    def claim(self, queues: Sequence[str], *, limit: int, lease_seconds: float) -> list[Delivery]:
        return claiming.claim(self._namespace, list(dict.fromkeys(queues)), limit, lease_seconds)

    def wait(self, queues: Sequence[str], *, timeout_seconds: float) -> bool:
        return claiming.wait(self._namespace, queues, timeout_seconds)

    def start(self, leases: Sequence[Lease], *, worker: str, ago_seconds: Sequence[float] = ()) -> list[Lease]:
        began = begun_ago(leases, ago_seconds)

        def start(batch: WriteBatch, task: TaskRow, index: int) -> None:
            if task.state != "running":
                batch.start(task, worker, began[index])

        return self._with_held(leases, start)

    def report(self, reports: Sequence[Report], *, worker: str) -> list[Lease]:
        def report(batch: WriteBatch, task: TaskRow, index: int) -> None:
            if task.state != "running":
                batch.start(task, worker, max(0.0, reports[index].ago_seconds))
            task.heartbeat_at = task.updated_at = batch.now
            progress = reports[index].progress
            if progress is None:
                batch.tell("heartbeat", task, batch.now)
            else:
                task.merge_meta({"progress": progress})
                batch.tell("progress", task, batch.now, progress)
            batch.change(task)

        return self._with_held([each.lease for each in reports], report)

    def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Lease]:
        def renew(batch: WriteBatch, task: TaskRow, _: int) -> None:
            length = max(lease_seconds, task.visibility_timeout or 0.0)
            batch.add["lease_renew"]((batch.now + length, task.seq))

        return self._with_held(leases, renew)

    def settle(self, endings: Sequence[Ending], *, worker: str) -> list[Lease]:
        refused = settling.settle(self._namespace, endings, worker)
        reclaiming.survived(self._namespace, survivors(refused, endings))
        self._pruner.prune_now_and_then()
        return refused

    def insert_dead(self, calls: Sequence[DeadCall], *, worker: str) -> list[Receipt]:
        return insert_dead.insert_dead(self._namespace, calls, worker)

    def reclaim(self, *, limit: int = 1000, max_deaths: int = MAX_DEATHS, grace_seconds: float = 0.0) -> Reclaimed:
        cascading.go_on(self._namespace)
        return reclaiming.reclaim(self._namespace, limit, max_deaths, grace_seconds)

    def depth(self, queues: Sequence[str] | None = None) -> dict[str, Depth]:
        return waiting.depth(self._namespace, queues)

    def peek(self, queue: str, *, limit: int) -> list[Peeked]:
        return waiting.peek(self._namespace, queue, limit)

    def cancel(self, task_ids: Sequence[str], *, reason: str = "revoked") -> list[str]:
        return waiting.cancel(self._namespace, list(dict.fromkeys(task_ids)), reason)

    def find(self, task_id: str) -> Peeked | None:
        return waiting.find(self._namespace, task_id)

    def purge(self, queue: str) -> int:
        return waiting.purge(self._namespace, queue)

    def push_in(
        self, cursor: sqlite3.Cursor, pushes: Sequence[Push], bodies: Sequence[bytes]
    ) -> tuple[list[Receipt], WriteBatch]:
        """Push in an open transaction. The batch has the time, and the topics to ring once the transaction is committed."""
        batch = WriteBatch(self._namespace, self._namespace.now())
        pushing = Pushing(self._namespace, batch, cursor, pushes)
        receipts = list(map(pushing.push, pushes, bodies))
        pushing.close()
        cascading.finish(cursor, batch)
        return receipts, batch

    def _with_held(self, leases: Sequence[Lease], act: Callable[[WriteBatch, TaskRow, int], None]) -> list[Lease]:
        """Call `act` for each valid lease, in order and in one transaction, and return the refused leases."""
        if not leases:
            return []
        refused = []
        with self._namespace.database.writing() as connection:
            batch = WriteBatch(self._namespace, self._namespace.now())
            tasks = held(connection, self._namespace.ns, leases)
            for index, lease in enumerate(leases):
                task = tasks.get(lease.id)
                if task is None or task.fence != lease.fence:
                    refused.append(lease)
                else:
                    act(batch, task, index)
            batch.write(connection)
        self._namespace.ring(batch.topics)
        reclaiming.survived(self._namespace, refused)
        return refused
