"""Push, claim, renew and settle tasks in memory."""

import time
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import msgspec

from stem.backends.memory.state import MemoryLetter, MemoryState, MemoryTask, StoreHandle
from stem.backends.memory.tasks.endings import Endings
from stem.backends.memory.tasks.pushing import CallSoFar, MemoryPushing
from stem.contracts.broker import Broker
from stem.contracts.steps import EVENT
from stem.core import envelope as envelopes
from stem.core.decisions.reclaim_watch import look
from stem.core.decisions.settle import MAX_DEATHS
from stem.core.delivery import DeadCall, Delivery, Depth, Ending, Lease, Peeked, Reclaimed, Report, begun_ago, survivors
from stem.core.envelope import Push, Receipt
from stem.core.errors import ConfigError
from stem.core.event import event_data, event_kinds
from stem.core.lifecycle import TERMINAL, EventKind, State, waiting_state
from stem.core.outcome import Block, Cancelled, Dead, Done, Requeue, Retry
from stem.core.prerequisites import OnFailure
from stem.core.record import TaskError, moment


def _crashes(task: MemoryTask) -> dict[str, Any]:
    return {"deaths": task.deaths, "runs": task.attempt + task.deaths}


class MemoryBroker(Broker):
    def __init__(self, state: MemoryState, handle: StoreHandle) -> None:
        self._state = state
        self._handle = handle
        self._endings = Endings(state)
        self._pushing = MemoryPushing(state, self._endings)

    def push(self, pushes: Sequence[Push], *, connection: object | None = None) -> list[Receipt]:
        if connection is not None:
            raise ConfigError("A memory store cannot join a transaction; enqueue without connection=.")
        bodies = [envelopes.encode(push.envelope) for push in pushes]
        with self._state.changed:
            self._pushing.check(pushes, CallSoFar())
            receipts = [self._pushing.push(push, body) for push, body in zip(pushes, bodies, strict=True)]
            self._carry_on()
        return receipts

    def claim(self, queues: Sequence[str], *, limit: int, lease_seconds: float) -> list[Delivery]:
        with self._state.changed:
            now = self._state.clock()
            fence = self._state.number("fence")
            deliveries: list[Delivery] = []
            while len(deliveries) < limit and (task := self._next(queues, now)) is not None:
                task.place, task.awaited_event = 0, None
                if task.expires_at is not None and task.expires_at <= now:
                    self._endings.end(
                        task, State.CANCELLED, now, error=TaskError("Expired", "It expired before it could start.")
                    )
                    self._state.tell(EventKind.EXPIRED, task, now)
                    self._carry_on()
                    continue
                task.fence = fence
                task.leased_until = now + (task.visibility_timeout or lease_seconds)
                self._state.leased[task.id] = task
                lease = Lease(task.id, fence)
                deliveries.append(
                    Delivery(lease, task.name, task.queue, task.attempt, task.deaths, task.body, task.priority)
                )
            return deliveries

    def wait(self, queues: Sequence[str], *, timeout_seconds: float) -> bool:
        end = time.monotonic() + timeout_seconds
        with self._state.changed:
            while self._next(queues, self._state.clock()) is None:
                left = end - time.monotonic()
                if left <= 0 or self._handle.is_closed:
                    return False
                self._state.changed.wait(min(left, self._until_due(queues)))
            return True

    def start(self, leases: Sequence[Lease], *, worker: str, ago_seconds: Sequence[float] = ()) -> list[Lease]:
        began = begun_ago(leases, ago_seconds)
        with self._state.changed:
            refused = []
            for lease, ago in zip(leases, began, strict=True):
                task = self._held(lease)
                if task is None:
                    refused.append(lease)
                elif task.state is not State.RUNNING:
                    self._started(task, worker, self._state.clock(), ago)
            self._survived(refused)
            self._state.changed.notify_all()
            return refused

    def report(self, reports: Sequence[Report], *, worker: str) -> list[Lease]:
        with self._state.changed:
            refused = []
            for report in reports:
                task = self._held(report.lease)
                if task is None:
                    refused.append(report.lease)
                    continue
                now = self._state.clock()
                if task.state is not State.RUNNING:
                    self._started(task, worker, now, max(0.0, report.ago_seconds))
                task.heartbeat_at = task.updated_at = now
                if report.progress is None:
                    self._state.tell(EventKind.HEARTBEAT, task, now)
                else:
                    task.meta["progress"] = report.progress
                    self._state.tell(EventKind.PROGRESS, task, now, report.progress)
            self._survived(refused)
            self._state.changed.notify_all()
            return refused

    def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Lease]:
        with self._state.changed:
            now = self._state.clock()
            refused = []
            for lease in leases:
                task = self._held(lease)
                if task is None:
                    refused.append(lease)
                else:
                    length = max(lease_seconds, task.visibility_timeout or 0.0)
                    task.leased_until = max(task.leased_until or 0.0, now + length)
            self._survived(refused)
            return refused

    def settle(self, endings: Sequence[Ending], *, worker: str) -> list[Lease]:
        bodies = [[envelopes.encode(push.envelope) for push in ending.follow_ups] for ending in endings]
        with self._state.changed:
            refused = []
            self._check(endings)
            for ending, follow_ups in zip(endings, bodies, strict=True):
                task = self._held(ending.lease)
                if task is None:
                    refused.append(ending.lease)
                    continue
                is_blocked = isinstance(ending.settlement, Block)
                if not is_blocked:
                    self._settle(task, ending, worker)
                for push, body in zip(ending.follow_ups, follow_ups, strict=True):
                    self._pushing.push(push, body)
                if is_blocked:  # it may wait for what was pushed
                    self._settle(task, ending, worker)
            self._survived(survivors(refused, endings))
            self._carry_on()
            return refused

    def insert_dead(self, calls: Sequence[DeadCall], *, worker: str) -> list[Receipt]:
        bodies = [envelopes.encode(each.envelope) for each in calls]
        with self._state.changed:
            receipts = []
            for each, body in zip(calls, bodies, strict=True):
                # It was run, so there is nothing left for it to wait for.
                receipt = self._pushing.push(Push(msgspec.structs.replace(each.envelope, after=())), body)
                receipts.append(receipt)
                if receipt.created:
                    self._give_up(self._state.tasks[receipt.id], each, worker)
            self._carry_on()
            return receipts

    def reclaim(self, *, limit: int = 1000, max_deaths: int = MAX_DEATHS, grace_seconds: float = 0.0) -> Reclaimed:
        with self._state.changed:
            now = self._state.clock()
            self._endings.catch_up(now)
            self._state.changed.notify_all()
            if grace_seconds > 0 and not self._is_watched(now, grace_seconds):
                return Reclaimed([], [])
            expired = [task for task in self._state.leased.values() if (task.leased_until or 0.0) <= now]
            expired.sort(key=lambda task: (task.leased_until, task.seq))
            result = Reclaimed([], [])
            for task in expired[:limit]:
                task.deaths += task.state is State.RUNNING
                if task.deaths >= max_deaths:
                    error = TaskError(
                        "WorkerLost", f"Worker {task.worker} was lost while it ran the task.", retryable=True
                    )
                    self._fail(task, Dead("crash-loop", error, _crashes(task)), now)
                    result.dead.append(task.id)
                else:
                    if task.state is State.RUNNING:
                        self._state.lost[task.id, task.fence] = now
                    # Told first: the event names the lost worker and when the attempt started.
                    self._state.tell(EventKind.REQUEUED, task, now, {"reason": "lease-expired"})
                    self._state.wait_again(task, now, now)
                    result.returned.append(task.id)
            self._carry_on()
            return result

    def depth(self, queues: Sequence[str] | None = None) -> dict[str, Depth]:
        with self._state.changed:
            now = self._state.clock()
            counts: dict[str, list[int]] = {queue: [0] * 5 for queue in queues or ()}
            for task in self._state.tasks.values():
                if task.place:
                    column = 0 if task.due_at <= now else 1
                elif task.leased_until is not None:
                    column = 2
                elif task.id in self._state.dead:
                    column = 3
                elif task.is_blocked:
                    column = 4
                else:
                    continue
                if queues is None or task.queue in counts:
                    counts.setdefault(task.queue, [0] * 5)[column] += 1
            return {queue: Depth(*numbers) for queue, numbers in counts.items()}

    def peek(self, queue: str, *, limit: int) -> list[Peeked]:
        with self._state.changed:
            now = self._state.clock()
            waiting = [task for task in self._state.tasks.values() if task.place and task.queue == queue]
            ready = sorted((t for t in waiting if t.due_at <= now), key=lambda t: (-t.priority, t.seq))
            delayed = sorted((t for t in waiting if t.due_at > now), key=lambda t: (t.due_at, t.seq))
            return [
                Peeked(t.id, t.name, t.queue, t.priority, t.attempt, moment(t.due_at), t.body)
                for t in (ready + delayed)[:limit]
            ]

    def cancel(self, task_ids: Sequence[str], *, reason: str = "revoked") -> list[str]:
        with self._state.changed:
            tasks = self._state.tasks
            found = [tasks[id] for id in dict.fromkeys(task_ids) if id in tasks]
            waiting = [task for task in found if task.place or task.is_blocked]
            self._cancel(waiting, reason)
            return [task.id for task in waiting]

    def find(self, task_id: str) -> Peeked | None:
        with self._state.changed:
            task = self._state.tasks.get(task_id)
            if task is None or (task.state in TERMINAL and not task.is_revivable):
                return None
            due_at = moment(task.due_at)
            return Peeked(task.id, task.name, task.queue, task.priority, task.attempt, due_at, task.body)

    def purge(self, queue: str) -> int:
        with self._state.changed:
            tasks = self._state.tasks.values()
            waiting = [task for task in tasks if task.queue == queue and (task.place or task.is_blocked)]
            self._cancel(waiting, "purged")
            return len(waiting)

    def _cancel(self, waiting: list[MemoryTask], reason: str) -> None:
        now = self._state.clock()
        for task in waiting:
            self._endings.cancel(task, reason, now)
        self._carry_on()

    def _carry_on(self) -> None:
        self._endings.carry_on(self._state.clock())
        self._state.changed.notify_all()

    def _next(self, queues: Sequence[str], now: float) -> MemoryTask | None:
        """The best due task of these queues; stale entries are dropped and due ones made ready on the way."""
        best: tuple[int, int, int, MemoryTask] | None = None
        for queue in (self._state.queues.get(name) for name in queues):
            if queue is None:
                continue
            while queue.delayed and queue.delayed[0][0] <= now:
                _, seq, place, task = heappop(queue.delayed)
                if task.place == place:
                    heappush(queue.ready, (-task.priority, seq, place, task))
            while queue.ready and queue.ready[0][2] != queue.ready[0][3].place:
                heappop(queue.ready)
            if queue.ready and (best is None or queue.ready[0][:2] < best[:2]):
                best = queue.ready[0]
        return best[3] if best else None

    def _until_due(self, queues: Sequence[str]) -> float:
        now = self._state.clock()
        heaps = [self._state.queues[name].delayed for name in queues if name in self._state.queues]
        return max(0.0, min((heap[0][0] - now for heap in heaps if heap), default=3600.0))

    def _held(self, lease: Lease) -> MemoryTask | None:
        task = self._state.leased.get(lease.id)
        return task if task is not None and task.fence == lease.fence else None

    def _is_watched(self, now: float, grace_seconds: float) -> bool:
        """Written only while something is leased: an idle worker writes nothing."""
        if not self._state.leased:
            return False
        self._state.watch = look(self._state.watch, now, grace_seconds)
        return self._state.watch.has_lasted(now, grace_seconds)

    def _survived(self, refused: Sequence[Lease]) -> None:
        """Take back the deaths counted for leases that were reclaimed: their worker is alive."""
        for lease in refused:
            task = self._state.tasks.get(lease.id)
            was_lost = self._state.lost.pop((lease.id, lease.fence), None) is not None
            if was_lost and task is not None and task.state not in TERMINAL:
                task.deaths = max(0, task.deaths - 1)

    def _started(self, task: MemoryTask, worker: str, now: float, ago: float) -> None:
        task.state, task.worker, task.started_at, task.updated_at = State.RUNNING, worker, now - ago, now
        self._state.tell(EventKind.STARTED, task, now - ago)

    def _give_up(self, task: MemoryTask, calls: DeadCall, worker: str) -> None:
        now = self._state.clock()
        task.worker, task.attempt = worker, calls.attempt
        if calls.run_seconds is not None:
            self._started(task, worker, now, calls.run_seconds)
        self._fail(task, calls.settlement, now)

    def _settle(self, task: MemoryTask, ending: Ending, worker: str) -> None:
        now = self._state.clock()
        if ending.run_seconds is not None and task.state is not State.RUNNING:
            self._started(task, worker, now, ending.run_seconds)
        task.worker = worker
        task.meta.update(ending.meta)
        task.updated_at = now
        settlement = ending.settlement
        if not isinstance(settlement, Dead):
            self._state.tell(event_kinds(settlement)[0], task, now, event_data(settlement, ending.facts))
        match settlement:
            case Done(payload):
                self._endings.end(task, State.SUCCEEDED, now)
                task.payload = payload
            case Retry(seconds, error):
                task.attempt += 1
                task.error = error
                self._state.wait_again(task, now, now + seconds)
            case Dead():
                self._fail(task, settlement, now, ending.facts)
            case Requeue(seconds, died=died, event=event):
                task.deaths += died
                is_sent = event is not None and EVENT + event in self._state.steps.get(task.id, {})
                self._state.wait_again(task, now, now if is_sent else now + seconds)
                task.awaited_event = None if is_sent else event
            case Block(after):
                self._block(task, after, now)
            case Cancelled(reason, passes):
                task.passes = passes
                self._endings.end(task, State.CANCELLED, now, error=TaskError("Cancelled", reason))

    def _check(self, endings: Sequence[Ending]) -> None:
        """Of two endings for one lease the first counts, and of one for a lost lease nothing does."""
        batch = CallSoFar()
        first: dict[Lease, Ending] = {}
        for ending in endings:
            first.setdefault(ending.lease, ending)
        for ending in first.values():
            if self._held(ending.lease) is not None:
                self._pushing.check_ending(ending, batch)

    def _block(self, task: MemoryTask, after: Sequence[str], now: float) -> None:
        """It stays as it was before the start, and ends when these have ended."""
        self._state.leased.pop(task.id, None)
        task.leased_until = task.worker = task.started_at = None
        task.state = waiting_state(task.attempt)
        task.on_failure, task.ends_when_released = OnFailure.CANCEL, True
        self._endings.block(task, after, now, is_told=True)

    def _fail(self, task: MemoryTask, settlement: Dead, now: float, facts: dict[str, Any] | None = None) -> None:
        self._endings.end(task, State.FAILED, now, error=settlement.error)
        self._state.dead[task.id] = MemoryLetter(
            self._state.number("dead"), task, settlement.reason, settlement.meta, now
        )
        for kind in event_kinds(settlement):
            self._state.tell(kind, task, now, event_data(settlement, facts))
