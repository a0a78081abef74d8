"""Count what this worker settles per minute, task, queue and tenant, and put it into the store's rollups, for charts."""

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from threading import Lock

import msgspec

from stem.contracts.rollups import Measures, MinuteRow, Number
from stem.contracts.store import Store
from stem.core.delivery import Ending
from stem.core.errors import StemError
from stem.core.event import event_kinds
from stem.core.histogram import bucket
from stem.core.outcome import Cancelled, Done, Requeue
from stem.worker.pool.in_flight import InFlightTask

TICK_SECONDS = 5.0
SAMPLE_TICKS = 4  # depths are counted by the store, which costs more than a write
MINUTE = 60
_EXACT = ("enqueued", "started")  # measures that only the pipeline's rows have

Key = tuple[str | None, str | None, str | None]  # name, queue, tenant


class MinuteCounts:
    """`add` is called in the settler's thread after a batch is written; `tick` by a thread of its own, every TICK_SECONDS.

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
    """The measures of one minute and key, as they grow."""

    __slots__ = ("mosts", "runs", "sums", "waits")

    def __init__(self) -> None:
        self.sums: dict[str, Number] = {}
        self.mosts: dict[str, Number] = {}
        self.runs: dict[int, int] = {}
        self.waits: dict[int, int] = {}

    def merge(self, before: Measures) -> None:
        for name, value in before.sums.items():
            self.sums[name] = self.sums.get(name, 0) + value
        for name, value in before.mosts.items():
            self.mosts[name] = max(self.mosts.get(name, value), value)
        for mine, theirs in ((self.runs, "run"), (self.waits, "wait")):
            for place, count in before.histograms.get(theirs, {}).items():
                mine[place] = mine.get(place, 0) + count

    def add(self, task: InFlightTask, ending: Ending, at: float) -> None:
        settlement, seconds = ending.settlement, ending.run_seconds
        for kind in ("succeeded",) if type(settlement) is Done else event_kinds(settlement):
            name = kind.replace("-", "_")
            self.sums[name] = self.sums.get(name, 0) + 1
        if seconds is None:
            return
        self._add_seconds("run", self.runs, seconds)
        if type(settlement) is not Done:
            self._add_failure(settlement, seconds)
        if task.delivery.attempt == 0 and (since := _ready_at(task.delivery.body)) is not None:
            self._add_seconds("wait", self.waits, max(0.0, at - seconds - since))

    def sample(self, ready: int, delayed: int, running: int, dead: int) -> None:
        for name, count in (("samples", 1), ("ready", ready), ("delayed", delayed), ("running", running)):
            self.sums[name] = self.sums.get(name, 0) + count
        for name, count in (("ready_most", ready), ("dead_most", dead)):
            self.mosts[name] = max(self.mosts.get(name, 0), count)

    def measures(self) -> Measures:
        histograms = {name: dict(counts) for name, counts in (("run", self.runs), ("wait", self.waits)) if counts}
        return Measures(dict(self.sums), dict(self.mosts), histograms)

    def _add_seconds(self, what: str, counts: dict[int, int], seconds: float) -> None:
        place = bucket(seconds)
        counts[place] = counts.get(place, 0) + 1
        self.sums[f"{what}_seconds"] = self.sums.get(f"{what}_seconds", 0.0) + seconds
        self.mosts[f"{what}_most"] = max(self.mosts.get(f"{what}_most", 0.0), seconds)

    def _add_failure(self, settlement: object, seconds: float) -> None:
        self.sums["wasted_seconds"] = self.sums.get("wasted_seconds", 0.0) + seconds
        match settlement:
            case Cancelled():
                outcome = "cancelled"
            case Requeue(died=died):
                outcome = "lost" if died else "interrupted"
            case _:
                return
        self.sums[outcome] = self.sums.get(outcome, 0) + 1


class _Times(msgspec.Struct, rename="camel"):
    enqueued_at: datetime
    not_before: datetime | None = None


_times = msgspec.json.Decoder(_Times)


def _ready_at(body: bytes) -> float | None:
    """When the task was enqueued, or was due if that was later; None for an envelope that cannot be read."""
    try:
        times = _times.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    ready = times.enqueued_at.timestamp()
    return ready if times.not_before is None else max(ready, times.not_before.timestamp())


def _is_exact(stored: MinuteRow | None, ours: Measures) -> bool:
    """Whether the pipeline has counted that minute already, and as much as we have."""
    if stored is None or not any(name in stored.measures.sums for name in _EXACT):
        return False
    return _endings(stored.measures) >= _endings(ours)


def _endings(measures: Measures) -> float:
    return sum(measures.sums.get(name, 0) for name in ("succeeded", "failed", "retried", "revoked", "requeued"))


def _moment(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * MINUTE, UTC)
