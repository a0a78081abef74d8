"""The metrics of a worker: what it is doing, and what became of its tasks, counted batch by batch."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

import msgspec

from stem.core.decisions.routing import is_same_or_tenant_queue
from stem.core.delivery import Depth, Ending
from stem.core.outcome import Cancelled, Dead, Done, Requeue, Retry, Settlement
from stem.telemetry import instruments
from stem.telemetry.instruments import Instrument
from stem.telemetry.metrics import Labels, Metrics
from stem.worker.pool.in_flight import InFlightTask

UNKNOWN = "unknown"  # the name of tasks that the app does not have: anybody can send any
BROADCAST = "broadcast"  # the queue of broadcasts, which has the worker's name otherwise
MOST_QUEUES = 10_000  # remembered; with fair share each tenant has one


class TaskMetrics:
    """Counts starts and endings. Called by threads that write to the store anyway, never by the pool's."""

    def __init__(self, metrics: Metrics, queues: Sequence[str]) -> None:
        self._metrics = metrics
        self._queues = tuple(queues)
        self._known = {queue: queue for queue in queues}
        self._lock = Lock()  # two threads may report an attempt as running and as ended at the same moment

    def started(self, tasks: Sequence[InFlightTask]) -> None:
        """Count attempts that have run for a moment already."""
        groups = _Groups(self._labels)
        with self._lock:
            for task in tasks:
                if not task.start_counted:
                    groups.of(task).start(task, task.started_at)
        groups.record(self._metrics)

    def ended(self, batch: Sequence[tuple[InFlightTask, Ending]]) -> None:
        groups = _Groups(self._labels)
        with self._lock:
            for task, ending in batch:
                group = groups.of(task)
                if (seconds := ending.run_seconds) is not None:
                    group.runs.append(seconds)
                    if not task.start_counted:
                        group.start(task, task.ended_at - seconds)
                group.endings.append(_instrument_of(ending.settlement))
        groups.record(self._metrics)

    def _labels(self, task: InFlightTask) -> Labels:
        queue = task.delivery.queue
        return UNKNOWN if task.facts is None else task.facts.name, self._known.get(queue) or self._queue(queue)

    def _queue(self, queue: str) -> str:
        """The queue that the worker serves; what a tenant's tasks wait in has a name of its own."""
        found = next((each for each in self._queues if is_same_or_tenant_queue(each, queue)), BROADCAST)
        if len(self._known) < MOST_QUEUES:
            self._known[queue] = found
        return found


class _Groups:
    """The tasks of one batch by name and queue: most batches have few, and recording takes a lock for each."""

    def __init__(self, labels: Callable[[InFlightTask], Labels]) -> None:
        self._labels = labels
        self._groups: dict[tuple[str, str], _Group] = {}

    def of(self, task: InFlightTask) -> "_Group":
        key = (task.delivery.name, task.delivery.queue)
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = _Group(self._labels(task))
        return found

    def record(self, metrics: Metrics) -> None:
        to_wall_clock = time.time() - time.monotonic()
        for group in self._groups.values():
            group.record(metrics, to_wall_clock)


class _Group:
    __slots__ = ("_labels", "_started", "_waits", "endings", "runs")

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._started = 0
        self._waits: list[float] = []  # from a wall clock's moment to a monotonic one
        self.runs: list[float] = []
        self.endings: list[Instrument | None] = []

    def start(self, task: InFlightTask, started_at: float) -> None:
        task.start_counted = True
        self._started += 1
        if task.delivery.attempt == 0 and (due_at := task.due_at) is not None:
            self._waits.append(started_at - due_at)

    def record(self, metrics: Metrics, to_wall_clock: float) -> None:
        labels = self._labels
        if self._started:
            metrics.count(instruments.STARTED, {labels: self._started})
        if self._waits:
            waits = [max(0.0, wait + to_wall_clock) for wait in self._waits]
            metrics.observe(instruments.WAIT, {labels[1:]: waits})
        for instrument, number in Counter(self.endings).items():
            if instrument is not None:
                metrics.count(instrument, {labels: number})
        if self.runs:
            metrics.observe(instruments.DURATION, {labels: self.runs})


def depth_numbers(depths: Mapping[str, Depth]) -> dict[Labels, float]:
    """Return the counts of queues by queue and state."""
    return {
        (queue, state): float(number)
        for queue, depth in depths.items()
        for state, number in msgspec.structs.asdict(depth).items()
    }


def _instrument_of(settlement: Settlement) -> Instrument | None:
    match settlement:
        case Done():
            return instruments.SUCCEEDED
        case Retry():
            return instruments.RETRIED
        case Dead():
            return instruments.FAILED
        case Cancelled():
            return instruments.REVOKED
        case Requeue(throttled=True):
            return instruments.THROTTLED
        case _:
            return None
