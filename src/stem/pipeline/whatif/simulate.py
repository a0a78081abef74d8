"""Replay recorded arrivals and run times through the autoscaler's own decisions. Pure: a trace and a configuration in, a
prediction out."""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from math import ceil, inf

import msgspec

from stem.core.decisions.autoscale import Autoscale, Memory, Snapshot, decide


class Trace(msgspec.Struct, frozen=True):
    """Tasks in order of arrival: when each was ready, in seconds from the first, and how long it ran."""

    arrivals: list[float]
    runs: list[float]

    @property
    def seconds(self) -> float:
        """From the first arrival to where the last could have ended."""
        return max((arrival + run for arrival, run in zip(self.arrivals, self.runs, strict=True)), default=0.0)


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Delays of a worker: until a new isolate takes work, until a task starts that need not wait, and the time of a look at
    the load, by which the next tick is later."""

    start_seconds: float = 0.03
    claim_seconds: float = 0.003
    look_seconds: float = 0.002


class Prediction(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`isolate_hours` counts every isolate from its start to its end, over the whole trace."""

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
    """The smallest value that this share of all values does not exceed; 0 if there are none."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else 0.0


class Simulation:
    """A discrete-event simulation of one worker: arrivals, ends, starts of isolates, ticks of the autoscaler."""

    def __init__(self, trace: Trace, config: Autoscale, model: Model) -> None:
        self._trace, self._config, self._model = trace, config, model
        self._isolates = config.minimum  # wanted; some may still be starting
        self._draining = 0  # isolates that stop after their task
        self._busy: list[float] = []  # when each ends what it runs
        self._starting: list[float] = []
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
            start = self._starting[0] if self._starting else inf
            self._pass(min(arrival, end, start, self._next_tick))
            if end <= self._now:
                self._end()
            elif start <= self._now:
                heappop(self._starting)
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
        """Isolates that are ready and idle."""
        return self._isolates - len(self._starting) - (len(self._busy) - self._draining)

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
        """Idle isolates stop first, then starting ones; busy ones finish their task."""
        if target > self._isolates:
            for _ in range(target - self._isolates):
                heappush(self._starting, self._now + self._model.start_seconds)
        else:
            leaving = self._isolates - target
            leaving -= min(leaving, max(0, self._free))
            while leaving and self._starting:
                self._starting.pop()
                leaving -= 1
            self._draining += leaving
        self._isolates = target
        self.most_isolates = max(self.most_isolates, target)

    def _look_again(self) -> None:
        """Skip ticks while nothing can be decided: no task waits, and the minimum of isolates runs."""
        config = self._config
        is_dull = not self._waiting and self._isolates == config.minimum and len(self._busy) <= config.minimum
        if is_dull or not config.enabled:
            self._next_tick = inf
        elif self._next_tick == inf:
            self._next_tick = ceil(self._now / self._period) * self._period
