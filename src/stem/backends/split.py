"""Two stores as one: tasks live in the broker's store, their records also in another, where results are read.

The order of writes, and why:

* `push`, `start`, `report`, retries: the broker first, then a copy of its record. The copy is for listings: readers take
  the broker's record as long as the copy has not ended, so a copy that could not be written is no loss, and failing the
  call for it would make the caller repeat what has been done.
* An ending: the final record first, then the broker. A crash between the two leaves a task that is leased but ended: its
  lease runs out, and at worst it runs again. The other order could lose the ending for good: acknowledged, with no result.
  Endings whose lease is lost (as `renew` says) are not copied, and the copy carries the lease's fence, so a late holder
  cannot overwrite what a later one wrote.
* Endings the broker makes by itself (expired, purged) are copied when first read, or by and by when the store is pruned.
* Of a copy without an original it is supposed that the task has ended and been pruned. Pruning writes that down, so that no
  copy waits for ever for a task that is gone; reading does not, and any original counts before it.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from stem.contracts.broker import Broker
from stem.contracts.results import Results
from stem.contracts.schedules import Scheduled, ScheduleEntry, Schedules, ScheduleState
from stem.contracts.staging import Calls, Part, Promotion, Staging, incomplete
from stem.contracts.store import Capabilities, Diagnosis, Store, Upkeep
from stem.core.decisions.settle import MAX_DEATHS
from stem.core.delivery import DeadCall, Delivery, Depth, Ending, Lease, Peeked, Reclaimed, Report
from stem.core.envelope import Push, Receipt
from stem.core.errors import StoreRefused, StoreUnavailable
from stem.core.lifecycle import State
from stem.core.outcome import Block, Cancelled, Dead, Done, Requeue, Retry
from stem.core.prerequisites import first_cause
from stem.core.record import Page, TaskError, TaskFilter, TaskRecord, moment

T = TypeVar("T", Ending, Report)

SETTLING_SECONDS = 30.0  # how long a lease is kept at least while its ending is written to both
SWEEP_COUNT = 1000
GONE = TaskError("Cancelled", "The broker no longer knows the task.")
LOOK_SECONDS = 1.0  # how often a wait looks for an ending that only the results store has


def join(broker: Store, results: Store) -> Store:
    """One store: the broker's, with its records kept in and read from the other."""
    records = SplitResults(broker.results, results.results)
    split_broker = SplitBroker(broker, results.results)
    return Store(
        url=broker.url,
        namespace=broker.namespace,
        capabilities=Capabilities(
            is_durable=broker.capabilities.is_durable and results.capabilities.is_durable,
            crosses_processes=broker.capabilities.crosses_processes and results.capabilities.crosses_processes,
            crosses_machines=broker.capabilities.crosses_machines and results.capabilities.crosses_machines,
            joins_transactions=broker.capabilities.joins_transactions,
            joins_async_transactions=broker.capabilities.joins_async_transactions,
        ),
        broker=split_broker,
        deadletters=broker.deadletters,
        results=records,
        events=broker.events,
        history=broker.history,  # it has every task too, for as long as its own retention says
        revokes=broker.revokes,
        locks=broker.locks,
        limiter=broker.limiter,
        heartbeats=broker.heartbeats,
        mail=broker.mail,
        staging=SplitStaging(),
        rollups=broker.rollups,
        schedules=SplitSchedules(broker.schedules, split_broker),
        steps=broker.steps,
        task_logs=broker.task_logs,
        upkeep=SplitUpkeep(broker.upkeep, results.upkeep, records),
    )


class SplitBroker(Broker):
    def __init__(self, store: Store, copies: Results) -> None:
        self._store = store
        self._broker = store.broker
        self._copies = copies

    def push(self, pushes: Sequence[Push], *, connection: object | None = None) -> list[Receipt]:
        receipts = self._broker.push(pushes, connection=connection)
        if connection is None:  # else it is not there before the caller commits, and may never be
            self._copy(receipt.id for receipt in receipts if receipt.created)
        return receipts

    def copy_pushed(self, pushes: Sequence[Push]) -> None:
        """Copy the records of tasks that another contract of the broker's store has pushed."""
        self._copy(push.envelope.id for push in pushes)

    def claim(self, queues: Sequence[str], *, limit: int, lease_seconds: float) -> list[Delivery]:
        return self._broker.claim(queues, limit=limit, lease_seconds=lease_seconds)

    def wait(self, queues: Sequence[str], *, timeout_seconds: float) -> bool:
        return self._broker.wait(queues, timeout_seconds=timeout_seconds)

    def wait_for_handoff(
        self, queues: Sequence[str], *, room: Callable[[], int], lease_seconds: float, timeout_seconds: float
    ) -> bool:
        return self._broker.wait_for_handoff(
            queues, room=room, lease_seconds=lease_seconds, timeout_seconds=timeout_seconds
        )

    def stop_handoff(self, *, for_good: bool = False) -> list[Delivery]:
        return self._broker.stop_handoff(for_good=for_good)

    def release_wait(self) -> None:
        self._broker.release_wait()

    def start(self, leases: Sequence[Lease], *, worker: str, ago_seconds: Sequence[float] = ()) -> list[Lease]:
        refused = self._broker.start(leases, worker=worker, ago_seconds=ago_seconds)
        lost = set(refused)
        self._copy(lease.id for lease in leases if lease not in lost)
        return refused

    def report(self, reports: Sequence[Report], *, worker: str) -> list[Lease]:
        refused = self._broker.report(reports, worker=worker)
        self._copy(report.lease.id for report in _without(reports, refused))
        return refused

    def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Lease]:
        return self._broker.renew(leases, lease_seconds=lease_seconds)

    def settle(self, endings: Sequence[Ending], *, worker: str) -> list[Lease]:
        told: dict[Lease, Ending] = {}
        for ending in endings:
            told.setdefault(ending.lease, ending)  # of two for one lease the broker takes the first
        final = [ending for ending in told.values() if isinstance(ending.settlement, Done | Dead | Cancelled)]
        if final:
            self._copies.save(self._final_records(final, worker))
        refused = self._broker.settle(endings, worker=worker)
        moved = [ending.lease.id for ending in told.values() if isinstance(ending.settlement, Retry | Requeue | Block)]
        self._copy([*moved, *(push.envelope.id for ending in endings for push in ending.follow_ups)])
        return refused

    def insert_dead(self, calls: Sequence[DeadCall], *, worker: str) -> list[Receipt]:
        receipts = self._broker.insert_dead(calls, worker=worker)
        self._copy(receipt.id for receipt in receipts if receipt.created)
        return receipts

    def reclaim(self, *, limit: int = 1000, max_deaths: int = MAX_DEATHS, grace_seconds: float = 0.0) -> Reclaimed:
        reclaimed = self._broker.reclaim(limit=limit, max_deaths=max_deaths, grace_seconds=grace_seconds)
        self._copy([*reclaimed.dead, *reclaimed.returned])
        return reclaimed

    def depth(self, queues: Sequence[str] | None = None) -> dict[str, Depth]:
        return self._broker.depth(queues)

    def peek(self, queue: str, *, limit: int) -> list[Peeked]:
        return self._broker.peek(queue, limit=limit)

    def cancel(self, task_ids: Sequence[str], *, reason: str = "revoked") -> list[str]:
        cancelled = self._broker.cancel(task_ids, reason=reason)
        self._copy(cancelled)
        return cancelled

    def find(self, task_id: str) -> Peeked | None:
        return self._broker.find(task_id)

    def purge(self, queue: str) -> int:
        return self._broker.purge(queue)

    def _copy(self, task_ids: Iterable[str]) -> None:
        ids = list(task_ids)
        if not ids:
            return
        try:
            self._copies.save(list(self._store.results.get(ids).values()))
        except (StoreUnavailable, StoreRefused):
            # The broker has done its part and readers will ask it: see the head of this file.
            return

    def _final_records(self, endings: Sequence[Ending], worker: str) -> list[TaskRecord]:
        lost = self._broker.renew([ending.lease for ending in endings], lease_seconds=SETTLING_SECONDS)
        held = _without(endings, lost)
        records = self._store.results.get([ending.lease.id for ending in held])
        now = self._store.upkeep.now()
        return [_final(records[ending.lease.id], ending, worker, now) for ending in held if ending.lease.id in records]


class SplitStaging(Staging):
    """None: a million records would have to be copied to the other store in the moment in which they become tasks."""

    def promoted(self, job: str) -> Promotion | None:  # noqa: ARG002
        return None

    def _stage(self, job: str, part: str, calls: Calls) -> None:  # noqa: ARG002
        raise StoreRefused(
            "Calls cannot be staged where results live apart from the broker; unset STEM_RESULT_BACKEND_URL for this app."
        )

    def _promote(self, job: str, parts: Sequence[Part], pushes: Sequence[Push]) -> Promotion:  # noqa: ARG002
        raise StoreRefused(incomplete(job, parts[0] if parts else Part("none", 0), 0))

    def _discard(self, job: str) -> None: ...


class SplitSchedules(Schedules):
    """Schedules are with the broker; the tasks that they enqueue are copied as pushed ones are."""

    def __init__(self, schedules: Schedules, broker: SplitBroker) -> None:
        self._schedules = schedules
        self._broker = broker

    def get(self, entry_id: str) -> Scheduled | None:
        return self._schedules.get(entry_id)

    def all(self) -> list[Scheduled]:
        return self._schedules.all()

    def broken(self) -> list[str]:
        return self._schedules.broken()

    def write(
        self, entry: ScheduleEntry, state: ScheduleState, *, revision: int | None, pushes: Sequence[Push] = ()
    ) -> Scheduled | None:
        written = self._schedules.write(entry, state, revision=revision, pushes=pushes)
        if written is not None:
            self._broker.copy_pushed(pushes)
        return written

    def delete(self, entry_id: str) -> bool:
        return self._schedules.delete(entry_id)

    def due(self, *, limit: int) -> list[Scheduled]:
        return self._schedules.due(limit=limit)

    def next_due_at(self) -> datetime | None:
        return self._schedules.next_due_at()

    def wait(self, *, timeout_seconds: float) -> bool:
        return self._schedules.wait(timeout_seconds=timeout_seconds)


class SplitResults(Results):
    def __init__(self, originals: Results, copies: Results) -> None:
        self._originals = originals
        self._copies = copies
        self._is_closed = False
        self._swept: dict[State, str | None] = {}  # where the last sweep ended

    def get(self, task_ids: Sequence[str], *, past_retention: bool = False) -> dict[str, TaskRecord]:
        """What waits for other tasks is in the broker's store, and so is what is kept for it."""
        if past_retention:
            originals = self._originals.get(task_ids, past_retention=True)
            missing = [id for id in task_ids if id not in originals]
            return originals | (self.get(missing) if missing else {})
        return self._merged(task_ids, self._copies.get(task_ids))

    def wait(self, task_ids: Sequence[str], *, timeout_seconds: float) -> dict[str, TaskRecord]:
        ends_at = time.monotonic() + timeout_seconds
        while True:
            ended = {id: record for id, record in self.get(task_ids).items() if record.is_terminal}
            left = ends_at - time.monotonic()
            if ended or left <= 0 or self._is_closed:
                return ended
            # The broker hears of every ending, and of most only when the copy is already there.
            self._originals.wait(task_ids, timeout_seconds=min(left, LOOK_SECONDS))

    def page(self, where: TaskFilter, *, limit: int, cursor: str | None = None) -> Page[TaskRecord]:
        """As the contract says, by the state that the copy has; those that have since moved on are left out."""
        page = self._copies.page(where, limit=limit, cursor=cursor)
        fresh = self._merged([record.id for record in page.items], {record.id: record for record in page.items})
        records = (fresh[record.id] for record in page.items)
        return Page([record for record in records if where.state in (None, record.state)], page.cursor)

    def save(self, records: Sequence[TaskRecord]) -> None:
        """For tasks that the broker runs; of others it will be said that the broker no longer knows them."""
        self._copies.save(records)

    def close(self) -> None:
        self._is_closed = True

    def sweep(self) -> int:
        """Bring the next few copies that have not ended up to date; returns how many have ended meanwhile."""
        ended = 0
        for state in (State.QUEUED, State.RETRIED, State.RUNNING):
            page = self._copies.page(TaskFilter(state=state), limit=SWEEP_COUNT, cursor=self._swept.get(state))
            self._swept[state] = page.cursor
            fresh = self._merged([record.id for record in page.items], {record.id: record for record in page.items})
            self._copies.save([record for record in fresh.values() if record.error == GONE])
            ended += sum(record.is_terminal for record in fresh.values())
        return ended

    def _merged(self, task_ids: Sequence[str], copies: dict[str, TaskRecord]) -> dict[str, TaskRecord]:
        originals = self._originals.get(task_ids)
        merged, uncopied = {}, []
        for task_id in task_ids:
            copy = copies.get(task_id)
            record = _believed(originals.get(task_id), copy)
            if record is None:
                continue
            merged[task_id] = record
            is_news = (
                copy is None
                or not copy.is_terminal
                or record.fence > copy.fence
                or copy.error == GONE
                or record.state is not copy.state  # it was revived
            )
            if record.is_terminal and is_news and record.error != GONE:
                uncopied.append(record)
        if uncopied:
            self._copies.save(uncopied)
        return merged


class SplitUpkeep(Upkeep):
    def __init__(self, broker: Upkeep, results: Upkeep, records: SplitResults) -> None:
        self._broker = broker
        self._results = results
        self._records = records

    def now(self) -> float:
        return self._broker.now()

    def diagnose(self) -> Diagnosis:
        broker, results = self._broker.diagnose(), self._results.diagnose()
        return Diagnosis(
            backend=f"{broker.backend}+{results.backend}",
            server=f"{broker.server}; results: {results.server}",
            latency_seconds=broker.latency_seconds + results.latency_seconds,
            warnings=[*broker.warnings, *(f"Results: {warning}" for warning in results.warnings)],
        )

    def prune(self) -> int:
        return self._broker.prune() + self._records.sweep() + self._results.prune()

    def close(self) -> None:
        self._records.close()
        try:
            self._broker.close()
        finally:
            self._results.close()


def _without(told: Sequence[T], refused: Sequence[Lease]) -> list[T]:
    lost = set(refused)
    return [one for one in told if one.lease not in lost]


def _believed(original: TaskRecord | None, copy: TaskRecord | None) -> TaskRecord | None:
    if original is not None and (copy is None or _is_newer(original, copy)):
        return original
    if copy is None or copy.is_terminal:
        return copy
    # The original was there before the copy: it has ended, and been pruned, without anyone looking.
    return msgspec.structs.replace(copy, state=State.CANCELLED, error=GONE, finished_at=copy.updated_at)


def _is_newer(original: TaskRecord, copy: TaskRecord) -> bool:
    """Whether to believe the broker's record. An ended copy gives way to a later lease, to a replay of the task, and to
    the same ending as the broker has it, with the times of its events. One that was only supposed gives way to any."""
    if copy.error == GONE:
        return True
    if not copy.is_terminal or original.fence != copy.fence:
        return not copy.is_terminal or original.fence > copy.fence
    waits_again = original.stage == 0 and copy.finished_at is not None and original.updated_at > copy.finished_at
    is_revived = original.state is State.SUCCEEDED and first_cause(copy.error) is not None  # a join, without a lease
    return waits_again or is_revived or original.state is copy.state


def _final(record: TaskRecord, ending: Ending, worker: str, now: float) -> TaskRecord:
    """What the broker's record will be when it has settled this ending."""
    started_at = record.started_at
    if started_at is None and ending.run_seconds is not None:
        started_at = moment(now - ending.run_seconds)
    state, payload, error = State.SUCCEEDED, None, None
    match ending.settlement:
        case Done(value):
            payload = value
        case Dead(error=reason):
            state, error = State.FAILED, reason
        case Cancelled(reason):
            state, error = State.CANCELLED, TaskError("Cancelled", reason)
        case Retry() | Requeue() | Block():
            raise TypeError(f"{ending.settlement} is no ending.")
    return msgspec.structs.replace(
        record,
        state=state,
        fence=ending.lease.fence,
        payload=payload,
        error=error,
        meta={**record.meta, **ending.meta},
        worker=worker,
        started_at=started_at,
        finished_at=moment(now),
        updated_at=moment(now),
    )
