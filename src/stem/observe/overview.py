"""The state of a fleet on one page: queues, workers, rates, failures, and what needs attention first."""

from collections.abc import Callable
from datetime import timedelta

import msgspec

from stem.contracts.rollups import MinuteRow
from stem.contracts.steering.revokes import Revokes
from stem.contracts.store import Store
from stem.core.record import moment
from stem.observe.attention import Concern, concerns
from stem.observe.dead_letters import letters
from stem.observe.queues import QueueView, queues
from stem.observe.rates import Period, RateHistory, Totals, history_by, history_of, period, read_rows, totals_of
from stem.observe.workers import WorkerSummary, workers

LETTERS_READ = 1000
MOST_TASKS = 12
SPARK_POINTS = 60


class TaskRates(msgspec.Struct, frozen=True):
    name: str
    history: RateHistory


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    span: Period
    history: RateHistory
    queues: list[QueueView]
    workers: list[WorkerSummary]
    schedulers: list[WorkerSummary]
    tasks: list[TaskRates]  # those that failed most, then those that ended most
    concerns: list[Concern]
    per_second: float  # attempts that ended, in the last whole minute

    @property
    def totals(self) -> Totals:
        return self.history.totals

    @property
    def ready(self) -> int:
        return sum(queue.state.depth.ready for queue in self.queues)

    @property
    def delayed(self) -> int:
        return sum(queue.state.depth.delayed for queue in self.queues)

    @property
    def blocked(self) -> int:
        return sum(queue.state.depth.blocked for queue in self.queues)

    @property
    def running(self) -> int:
        return sum(queue.state.depth.running for queue in self.queues)

    @property
    def dead(self) -> int:
        return sum(queue.state.depth.dead for queue in self.queues)

    @property
    def worker_count(self) -> int:
        return sum(worker.kind == "worker" for worker in self.workers)

    @property
    def slots(self) -> int:
        return sum(worker.concurrency for worker in self.workers)


def overview(
    store: Store, revokes: Revokes, *, seconds: int, read: Callable[[Store, Period], list[MinuteRow]] = read_rows
) -> Overview:
    """Read everything once; some ten calls to the store, however many tasks there are. `read` may know the rows already."""
    now = store.upkeep.now()
    span = period(now, seconds)
    rows = read(store, span)
    lines, beats = queues(store, revokes, rows, span), workers(store)
    by_name = history_by((row for row in rows if row.name), span, ("name",))
    tasks = [TaskRates(name, history) for (name,), history in by_name.items() if name is not None]
    tasks.sort(key=lambda each: (-each.history.totals.failed, -each.history.totals.ended, each.name))
    has_dead = any(line.state.depth.dead for line in lines)
    return Overview(
        per_second=_per_second(store, now),
        span=span,
        history=history_of(rows, span),
        queues=lines,
        workers=[beat for beat in beats if beat.kind == "worker"],
        schedulers=[beat for beat in beats if beat.kind == "scheduler"],
        tasks=tasks[:MOST_TASKS],
        concerns=concerns(
            queues=[line.state for line in lines],
            workers=beats,
            tasks=[(each.name, each.history.totals) for each in tasks],
            letters=letters(store, most=LETTERS_READ).groups if has_dead else [],
            schedules=store.schedules.all(),
            broken_schedules=store.schedules.broken(),
            warnings=[],
        ),
    )


def _per_second(store: Store, now: float) -> float:
    last = moment(now // 60 * 60 - 60)
    return totals_of(store.rollups.read(last, last + timedelta(minutes=1))).ended / 60
