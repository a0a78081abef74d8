"""Push, claim, keep and end tasks in an SQLite file."""

import sqlite3
from collections.abc import Callable, Sequence

from stem.backends.sqlite import burying, claiming, counting, reclaiming, settling
from stem.backends.sqlite.draft import Draft
from stem.backends.sqlite.joined import joined
from stem.backends.sqlite.pruning import Pruner
from stem.backends.sqlite.pushing import Pushing
from stem.backends.sqlite.refusals import translated
from stem.backends.sqlite.space import Space
from stem.backends.sqlite.task import Task, held
from stem.contracts.broker import Broker
from stem.core import envelope as envelopes
from stem.core.delivery import Delivery, Depth, Ending, Fallen, Lease, Peeked, Reclaimed, Report, begun_ago, survivors
from stem.core.envelope import Push, Receipt
from stem.core.settle import MAX_DEATHS


class SqliteBroker(Broker):
    def __init__(self, space: Space, pruner: Pruner) -> None:
        self._space = space
        self._pruner = pruner

    def push(self, pushes: Sequence[Push], *, connection: object | None = None) -> list[Receipt]:
        if not pushes:
            return []
        bodies = [envelopes.encode(push.envelope) for push in pushes]
        if connection is not None:
            with translated(self._space.file.path), joined(connection, self._space.file.path) as cursor:
                # No ring: the commit is the caller's, and sleepers look for it.
                receipts, _ = self._push(cursor, pushes, bodies)
                return receipts
        with self._space.file.writing() as own:
            receipts, draft = self._push(own.cursor(), pushes, bodies)
        self._space.ring(draft.topics)
        self._pruner.prune_now_and_then()
        return receipts

    def claim(self, queues: Sequence[str], *, limit: int, lease_seconds: float) -> list[Delivery]:
        return claiming.claim(self._space, list(dict.fromkeys(queues)), limit, lease_seconds)

    def wait(self, queues: Sequence[str], *, timeout_seconds: float) -> bool:
        return claiming.wait(self._space, queues, timeout_seconds)

    def start(self, leases: Sequence[Lease], *, worker: str, ago_seconds: Sequence[float] = ()) -> list[Lease]:
        began = begun_ago(leases, ago_seconds)

        def start(draft: Draft, task: Task, index: int) -> None:
            if task.state != "running":
                draft.start(task, worker, began[index])

        return self._with_held(leases, start)

    def report(self, reports: Sequence[Report], *, worker: str) -> list[Lease]:
        def report(draft: Draft, task: Task, index: int) -> None:
            if task.state != "running":
                draft.start(task, worker, max(0.0, reports[index].ago_seconds))
            task.heartbeat_at = task.updated_at = draft.now
            progress = reports[index].progress
            if progress is None:
                draft.tell("heartbeat", task, draft.now)
            else:
                task.merge_meta({"progress": progress})
                draft.tell("progress", task, draft.now, progress)
            draft.change(task)

        return self._with_held([each.lease for each in reports], report)

    def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Lease]:
        def renew(draft: Draft, task: Task, _: int) -> None:
            length = max(lease_seconds, task.visibility_timeout or 0.0)
            draft.add["lease_renew"]((draft.now + length, task.seq))

        return self._with_held(leases, renew)

    def settle(self, endings: Sequence[Ending], *, worker: str) -> list[Lease]:
        refused = settling.settle(self._space, endings, worker)
        reclaiming.survived(self._space, survivors(refused, endings))
        self._pruner.prune_now_and_then()
        return refused

    def bury(self, fallen: Sequence[Fallen], *, worker: str) -> list[Receipt]:
        return burying.bury(self._space, fallen, worker)

    def reclaim(self, *, limit: int = 1000, max_deaths: int = MAX_DEATHS, grace_seconds: float = 0.0) -> Reclaimed:
        return reclaiming.reclaim(self._space, limit, max_deaths, grace_seconds)

    def depth(self, queues: Sequence[str] | None = None) -> dict[str, Depth]:
        return counting.depth(self._space, queues)

    def peek(self, queue: str, *, limit: int) -> list[Peeked]:
        return counting.peek(self._space, queue, limit)

    def cancel(self, task_ids: Sequence[str], *, reason: str = "revoked") -> list[str]:
        return counting.cancel(self._space, list(dict.fromkeys(task_ids)), reason)

    def find(self, task_id: str) -> Peeked | None:
        return counting.find(self._space, task_id)

    def purge(self, queue: str) -> int:
        return counting.purge(self._space, queue)

    def _push(
        self, cursor: sqlite3.Cursor, pushes: Sequence[Push], bodies: Sequence[bytes]
    ) -> tuple[list[Receipt], Draft]:
        draft = Draft(self._space, self._space.now())
        pushing = Pushing(self._space, draft, cursor, pushes)
        receipts = list(map(pushing.push, pushes, bodies))
        draft.write(cursor)
        return receipts, draft

    def _with_held(self, leases: Sequence[Lease], act: Callable[[Draft, Task, int], None]) -> list[Lease]:
        """Do it for each lease that is good, in order, in one transaction; returns the others."""
        if not leases:
            return []
        refused = []
        with self._space.file.writing() as connection:
            draft = Draft(self._space, self._space.now())
            tasks = held(connection, self._space.ns, leases)
            for index, lease in enumerate(leases):
                task = tasks.get(lease.id)
                if task is None or task.fence != lease.fence:
                    refused.append(lease)
                else:
                    act(draft, task, index)
            draft.write(connection)
        self._space.ring(draft.topics)
        reclaiming.survived(self._space, refused)
        return refused
