"""Count what this worker settles per minute, task, queue and tenant, and put it into the store's rollups, for charts."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from threading import Lock

from stem.contracts.rollups import Measures, MinuteRow, Number, merged
from stem.contracts.store import Store
from stem.core.delivery import Ending
from stem.core.errors import StemError
from stem.core.event import event_kinds
from stem.core.histogram import bucket
from stem.core.outcome import Cancelled, Done, Requeue, Settlement
from stem.worker.pool.in_flight import InFlightTask

TICK_SECONDS = 5.0
SAMPLE_TICKS = 4  # depths are counted by the store, which costs more than a write
MINUTE = 60
_EXACT = ("enqueued", "started")  # measures that only the pipeline's rows have

Key = tuple[str | None, str | None, str | None]  # name, queue, tenant


class MinuteCounts:
    """`add` is called with each batch of endings that the store has taken; `tick` by a thread of its own, every TICK_SECONDS.

    Measures have the names of the pipeline's gold rows. Where the pipeline runs, its rows have the same keys and replace these.
    A wait is counted from the time that the sender has written into the envelope.
    """

    def __init__(self, store: Store, worker: str, queues: Sequence[str]) -> None:
        self._store = store
        self._worker = worker
        self._queues = queues
        self._lock = Lock()
        self._minutes: dict[int, dict[Key, _Counts]] = {}
        self._changed: set[int] = set()
        self._ahead_seconds = (
            time.time() - time.monotonic()
        )  # of the store's clock before the monotonic one; set by a tick
        self._ticks = 0

    def add(self, settled: Sequence[tuple[InFlightTask, Ending]]) -> None:
        at = time.monotonic() + self._ahead_seconds
        minute = int(at) // MINUTE
        with self._lock:
            counts = self._minutes.setdefault(minute, {})
            self._changed.add(minute)
            for task, ending in settled:
                delivery = task.delivery
                key = (delivery.name, delivery.queue, ending.facts.get("tenant"))
                found = counts.get(key)
                if found is None:
                    found = counts[key] = _Counts()
                found.add(task, ending, at)

    def tick(self) -> None:
        """Write the minutes that have changed. A tick that fails is made up for by the next."""
        self._ahead_seconds = self._store.upkeep.now() - time.monotonic()
        current = int(time.monotonic() + self._ahead_seconds) // MINUTE
        if not self._ticks:
            self._resume(current)
        if self._ticks % SAMPLE_TICKS == 0:
            self._sample(current)
        self._ticks += 1
        self._write(current)

    def _resume(self, minute: int) -> None:
        """Go on from what a process of the same name has counted in this minute: rows are replaced whole."""
        before = list(self._stored(minute))
        with self._lock:
            counts = self._minutes.setdefault(minute, {})
            for row in before:
                counts.setdefault((row.name, row.queue, row.tenant), _Counts()).merge(row.measures)

    def _sample(self, minute: int) -> None:
        depths = self._store.broker.depth(self._queues)
        with self._lock:
            counts = self._minutes.setdefault(minute, {})
            for queue, depth in depths.items():
                found = counts.setdefault((None, queue, None), _Counts())
                found.sample(depth.ready, depth.delayed, depth.running, depth.dead)
            self._changed.add(minute)

    def _write(self, current: int) -> None:
        with self._lock:
            changed, self._changed = self._changed, set()
            ours = {minute: {key: c.measures() for key, c in self._minutes[minute].items()} for minute in changed}
            for minute in [minute for minute in self._minutes if minute < current - 1]:
                del self._minutes[minute]
        try:
            over = (minute for minute in ours if minute < current)
            exact = {
                minute: {(row.name, row.queue, row.tenant): row for row in self._stored(minute)} for minute in over
            }
            self._store.rollups.put(
                self._row(minute, key, measures)
                for minute, rows in ours.items()
                for key, measures in rows.items()
                if not _is_exact(exact.get(minute, {}).get(key), measures)
            )
        except StemError:
            with self._lock:
                self._changed |= changed & self._minutes.keys()
            raise

    def _row(self, minute: int, key: Key, measures: Measures) -> MinuteRow:
        name, queue, tenant = key
        return MinuteRow(
            minute=_moment(minute), name=name, queue=queue, worker=self._worker, tenant=tenant, measures=measures
        )

    def _stored(self, minute: int) -> Iterator[MinuteRow]:
        """What the store has for this worker."""
        since = _moment(minute)
        rows = self._store.rollups.read(since, since + timedelta(seconds=MINUTE))
        return (row for row in rows if row.worker == self._worker)


class _Counts:
    """The measures of one minute and key, as they grow. Durations are kept as they are until the next tick, which is cheaper."""

    __slots__ = ("_before", "_mosts", "_runs", "_succeeded", "_sums", "_waits")

    def __init__(self) -> None:
        self._succeeded = 0
        self._mosts: dict[str, Number] = {}
        self._sums: dict[str, Number] = {}
        self._runs: list[float] = []
        self._waits: list[float] = []
        self._before = Measures()

    def add(self, task: InFlightTask, ending: Ending, at: float) -> None:
        settlement, seconds = ending.settlement, ending.run_seconds
        if type(settlement) is Done:
            self._succeeded += 1
        else:
            self._add_failure(settlement, seconds)
        if seconds is None:
            return
        self._runs.append(seconds)
        delivery = task.delivery
        if delivery.attempt == 0 and (since := task.due_at) is not None:
            self._waits.append(max(0.0, at - seconds - since))

    def merge(self, before: Measures) -> None:
        self._before = _merged(self._before, before)

    def sample(self, ready: int, delayed: int, running: int, dead: int) -> None:
        for name, count in (("samples", 1), ("ready", ready), ("delayed", delayed), ("running", running)):
            self._sums[name] = self._sums.get(name, 0) + count
        for name, count in (("ready_most", ready), ("dead_most", dead)):
            self._mosts[name] = max(self._mosts.get(name, 0), count)

    def measures(self) -> Measures:
        """All so far; the durations become buckets."""
        sums, mosts = dict(self._sums), dict(self._mosts)
        if self._succeeded:
            sums["succeeded"] = self._succeeded
        histograms: dict[str, dict[int, int]] = {}
        for what, values in (("run", self._runs), ("wait", self._waits)):
            if values:
                histograms[what] = dict(Counter(map(bucket, values)))
                sums[f"{what}_seconds"], mosts[f"{what}_most"] = sum(values), max(values)
        self._before = _merged(self._before, Measures(sums, mosts, histograms))
        self._succeeded, self._mosts = 0, {}
        self._sums, self._runs, self._waits = {}, [], []
        return self._before

    def _add_failure(self, settlement: Settlement, seconds: float | None) -> None:
        for kind in event_kinds(settlement):
            self._count(kind.replace("-", "_"))
        if seconds is None:
            return
        self._count("wasted_seconds", seconds)
        match settlement:
            case Cancelled():
                self._count("cancelled")
            case Requeue(died=died):
                self._count("lost" if died else "interrupted")
            case _:
                pass

    def _count(self, name: str, value: Number = 1) -> None:
        self._sums[name] = self._sums.get(name, 0) + value


def _merged(one: Measures, other: Measures) -> Measures:
    rows = [MinuteRow(minute=_moment(0), measures=each) for each in (one, other)]
    return merged(rows, ())[()]


def _is_exact(stored: MinuteRow | None, ours: Measures) -> bool:
    """Whether the pipeline has counted that minute already, and as much as we have."""
    if stored is None or not any(name in stored.measures.sums for name in _EXACT):
        return False
    return _endings(stored.measures) >= _endings(ours)


def _endings(measures: Measures) -> float:
    return sum(measures.sums.get(name, 0) for name in ("succeeded", "failed", "retried", "revoked", "requeued"))


def _moment(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * MINUTE, UTC)
