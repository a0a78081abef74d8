"""The metrics of a worker: what it is doing, and what became of its tasks, counted batch by batch."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
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
        with self._lock:
            self._count_starts([(task, task.started_at) for task in tasks if not task.start_counted])

    def ended(self, batch: Sequence[tuple[InFlightTask, Ending]], refused: Set[str]) -> None:
        durations: dict[Labels, list[float]] = {}
        counts: dict[Instrument, dict[Labels, int]] = {}
        starts: list[tuple[InFlightTask, float]] = []
        for task, ending in batch:
            if refused and ending.lease.id in refused:
                continue
            labels = self._labels(task)
            if (seconds := ending.run_seconds) is not None:
                durations.setdefault(labels, []).append(seconds)
                if not task.start_counted:
                    starts.append((task, task.ended_at - seconds))
            instrument = _instrument_of(ending.settlement)
            if instrument is not None:
                of_kind = counts.setdefault(instrument, {})
                of_kind[labels] = of_kind.get(labels, 0) + 1
        with self._lock:
            self._count_starts([each for each in starts if not each[0].start_counted])
        for instrument, by_labels in counts.items():
            self._metrics.count(instrument, by_labels)
        if durations:
            self._metrics.observe(instruments.DURATION, durations)

    def _count_starts(self, starts: Sequence[tuple[InFlightTask, float]]) -> None:
        if not starts:
            return
        to_wall_clock = time.time() - time.monotonic()
        waits: dict[Labels, list[float]] = {}
        counts: Counter[Labels] = Counter()
        for task, started_at in starts:
            task.start_counted = True
            labels = self._labels(task)
            counts[labels] += 1
            delivery = task.delivery
            if delivery.attempt == 0 and (due_at := _due_at(delivery.body)) is not None:
                waits.setdefault(labels[1:], []).append(max(0.0, started_at + to_wall_clock - due_at))
        self._metrics.count(instruments.STARTED, counts)
        if waits:
            self._metrics.observe(instruments.WAIT, waits)

    def _labels(self, task: InFlightTask) -> Labels:
        queue = task.delivery.queue
        return UNKNOWN if task.facts is None else task.facts.name, self._known.get(queue) or self._queue(queue)

    def _queue(self, queue: str) -> str:
        """The queue that the worker serves; what a tenant's tasks wait in has a name of its own."""
        found = next((each for each in self._queues if is_same_or_tenant_queue(each, queue)), BROADCAST)
        if len(self._known) < MOST_QUEUES:
            self._known[queue] = found
        return found


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


def _due_at(body: bytes) -> float | None:
    """When the call was due, by the sender's clock; the store's own time is not in the envelope."""
    try:
        call = _due_calls.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return (call.not_before or call.enqueued_at).timestamp()


class _DueCall(msgspec.Struct, rename="camel"):
    enqueued_at: datetime
    not_before: datetime | None = None


_due_calls = msgspec.json.Decoder(_DueCall)
