"""Replay recorded arrivals and run times through the autoscaler's own decisions. Pure: a trace and a configuration in, a
prediction out."""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from math import ceil, inf

import msgspec

from stem.core.autoscale import Autoscale, Memory, Snapshot, decide


class Trace(msgspec.Struct, frozen=True):
    """Tasks in the order in which they came: when each could have begun, in seconds from the first, and how long it ran."""

    arrivals: list[float]
    runs: list[float]

    @property
    def seconds(self) -> float:
        """From the first arrival to where the last could have ended."""
        return max((arrival + run for arrival, run in zip(self.arrivals, self.runs, strict=True)), default=0.0)


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker adds of its own: until a new isolate takes work, until a task that need not wait has begun, and what a
    look at the load takes: the next tick comes so much later than configured."""

    start_seconds: float = 0.03
    claim_seconds: float = 0.003
    look_seconds: float = 0.002


class Prediction(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`isolate_hours` count every isolate from its order to its leaving, over the whole trace."""

    p50_wait: float
    p95_wait: float
    p99_wait: float
    mean_wait: float
    isolate_hours: float
    most_isolates: int
    moves: int


def simulate(trace: Trace, config: Autoscale, model: Model = Model()) -> Prediction:  # noqa: B008 - frozen
    """One worker, as many isolates as the autoscaler decides, first come first served."""
    run = Simulation(trace, config, model)
    run.play()
    waits = sorted(run.waits)
    return Prediction(
        p50_wait=percentile(waits, 0.50),
        p95_wait=percentile(waits, 0.95),
        p99_wait=percentile(waits, 0.99),
        mean_wait=sum(waits) / len(waits) if waits else 0.0,
        isolate_hours=run.isolate_seconds / 3600,
        most_isolates=run.most_isolates,
        moves=run.moves,
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that this share of all do not exceed; 0 of none."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else 0.0


class Simulation:
    """A worker's day. Time goes from one thing that happens to the next: an arrival, an end, a birth, a tick."""

    def __init__(self, trace: Trace, config: Autoscale, model: Model) -> None:
        self._trace, self._config, self._model = trace, config, model
        self._isolates = config.minimum  # as many as are wanted; some may still be starting
        self._draining = 0  # that leave when they have ended what they run
        self._busy: list[float] = []  # when each ends what it runs
        self._births: list[float] = []
        self._waiting: deque[int] = deque()
        self._memory = Memory()
        self._now = 0.0
        self._period = config.tick_seconds + model.look_seconds
        self._next_tick = 0.0
        self.waits: list[float] = []
        self.started: list[tuple[float, int]] = []  # when, and which task
        self.isolate_seconds = 0.0
        self.most_isolates = config.minimum
        self.moves = 0

    def play(self) -> None:
        arrivals, place = self._trace.arrivals, 0
        while place < len(arrivals) or self._busy or self._waiting:
            arrival = arrivals[place] if place < len(arrivals) else inf
            end = self._busy[0] if self._busy else inf
            birth = self._births[0] if self._births else inf
            self._pass(min(arrival, end, birth, self._next_tick))
            if end <= self._now:
                self._end()
            elif birth <= self._now:
                heappop(self._births)
            elif arrival <= self._now:
                self._waiting.append(place)
                place += 1
            else:
                self._tick()
            self._begin()
            self._look_again()
        self._pass(max(self._now, self._trace.seconds))

    @property
    def _free(self) -> int:
        """Isolates that are ready and have nothing to do."""
        return self._isolates - len(self._births) - (len(self._busy) - self._draining)

    def _pass(self, until: float) -> None:
        self.isolate_seconds += (until - self._now) * (self._isolates + self._draining)
        self._now = until

    def _end(self) -> None:
        heappop(self._busy)
        if self._draining:
            self._draining -= 1

    def _begin(self) -> None:
        while self._waiting and self._free > 0:
            task = self._waiting.popleft()
            began_at = self._now + self._model.claim_seconds
            self.waits.append(began_at - self._trace.arrivals[task])
            self.started.append((began_at, task))
            heappush(self._busy, began_at + self._trace.runs[task])

    def _tick(self) -> None:
        snapshot = Snapshot(
            queue_depth=len(self._waiting),
            in_flight=len(self._busy),
            isolates=self._isolates,
            prefetch=0,
            now=self._now,
        )
        move, self._memory = decide(self._config, snapshot, self._memory)
        if move is not None:
            self._resize(move.target)
            self.moves += 1
        self._next_tick = self._now + self._period

    def _resize(self, target: int) -> None:
        """The idle leave first, then those that are not there yet; the busy finish what they run."""
        if target > self._isolates:
            for _ in range(target - self._isolates):
                heappush(self._births, self._now + self._model.start_seconds)
        else:
            leaving = self._isolates - target
            leaving -= min(leaving, max(0, self._free))
            while leaving and self._births:
                self._births.pop()
                leaving -= 1
            self._draining += leaving
        self._isolates = target
        self.most_isolates = max(self.most_isolates, target)

    def _look_again(self) -> None:
        """Nothing is decided while nobody waits and the least there may be are there: so no tick is counted out then."""
        config = self._config
        is_dull = not self._waiting and self._isolates == config.minimum and len(self._busy) <= config.minimum
        if is_dull or not config.enabled:
            self._next_tick = inf
        elif self._next_tick == inf:
            self._next_tick = ceil(self._now / self._period) * self._period
