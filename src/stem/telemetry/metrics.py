"""Counts what one worker or scheduler does, for whoever collects it."""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock

from stem.telemetry.instruments import NAMESPACE, WORKER, Instrument

Labels = tuple[str, ...]
Numbers = Mapping[Labels, float]


@dataclass(slots=True)
class Distribution:
    """The values of one series: how many fell into each bucket, the last being above all bounds, and their sum."""

    counts: list[int]
    total: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(slots=True, eq=False)
class Metrics:
    """The metrics of one worker or scheduler. Safe from any thread; recording takes a batch, because it takes a lock.

    `read` are functions that return current numbers by labels. They are called when somebody collects, must not block, and
    may be missing for an instrument.
    """

    namespace: str
    worker: str
    read: dict[str, Callable[[], Numbers]] = field(default_factory=dict)
    since: float = field(default_factory=time.time)
    _counts: dict[str, dict[Labels, float]] = field(default_factory=dict)
    _distributions: dict[str, dict[Labels, Distribution]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    # Gets every batch of values, for a collector that keeps histograms itself; None: nobody wants them.
    values_recorded: Callable[[Instrument, Mapping[Labels, list[float]]], None] | None = None

    def count(self, instrument: Instrument, counts: Numbers) -> None:
        with self._lock:
            kept = self._counts.setdefault(instrument.name, {})
            for labels, number in counts.items():
                kept[labels] = kept.get(labels, 0) + number

    def observe(self, instrument: Instrument, values: Mapping[Labels, list[float]]) -> None:
        buckets = instrument.buckets
        with self._lock:
            kept = self._distributions.setdefault(instrument.name, {})
            for labels, found in values.items():
                distribution = kept.get(labels)
                if distribution is None:
                    distribution = kept[labels] = Distribution([0] * (len(buckets) + 1))
                counts = distribution.counts
                for value in found:
                    counts[bisect_left(buckets, value)] += 1
                distribution.total += sum(found)
        if self.values_recorded is not None:
            self.values_recorded(instrument, values)

    def numbers(self, instrument: Instrument) -> Numbers:
        """Return the current values of a gauge or counter by labels."""
        name = instrument.shows or instrument.name
        if name in self.read:
            return self.read[name]()
        with self._lock:
            return dict(self._counts.get(name, {}))

    def distributions(self, instrument: Instrument) -> dict[Labels, Distribution]:
        with self._lock:
            kept = self._distributions.get(instrument.shows or instrument.name, {})
            return {labels: Distribution(list(each.counts), each.total) for labels, each in kept.items()}

    def attributes(self, instrument: Instrument, labels: Labels) -> dict[str, str]:
        """Return the attributes of one series."""
        source = {NAMESPACE: self.namespace, **({WORKER: self.worker} if instrument.of_worker else {})}
        return {**source, **instrument.fixed, **dict(zip(instrument.labels, labels, strict=True))}


def grouped(pairs: Iterable[tuple[Labels, float]]) -> dict[Labels, list[float]]:
    """Collect values by labels."""
    found: dict[Labels, list[float]] = {}
    for labels, value in pairs:
        found.setdefault(labels, []).append(value)
    return found
