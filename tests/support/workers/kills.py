"""Workers that are killed, process by process, while their tasks come and go."""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil

from stem.core.delivery import DeadFilter
from support.builders import a_push
from support.until import until
from support.workers.fleet import Fleet, FleetWorker

WORKERS = 3
BATCH = 40
MOST_READY = 10 * BATCH
SHORT: dict[str, Any] = {"concurrency": 2, "lease_seconds": 1.0, "reclaim_seconds": 0.25}


class Campaign:
    """Three workers under load. Each loses one of its processes when its turn comes, and is replaced if that was the first."""

    def __init__(self, fleet: Fleet, dice: random.Random) -> None:
        self.fleet = fleet
        self.dice = dice
        self.acknowledged: list[str] = []
        self.kills = 0

    def run(self, is_over: Callable[[], bool]) -> None:
        workers = [self.fleet.start(is_awaited=False, **SHORT) for _ in range(WORKERS)]
        self.fleet.ready(*workers)
        self.load()
        while not is_over():
            if self.fleet.depth().ready < MOST_READY:  # it is to end some time after the last kill
                self.load()
            self.wait()
            place = self.dice.randrange(WORKERS)
            workers[place] = self.strike(workers[place])

    def load(self) -> None:
        """Tasks that take between nothing and a good part of the lease."""
        first = len(self.acknowledged)
        naps: list[tuple[str, dict[str, float]]] = [("nap", {"seconds": 0.05}), ("nap", {"seconds": 0.4})]
        tasks = [*naps, ("doze", {"seconds": 0.1}), *[("note", dict[str, float]())] * 6]
        pushes = []
        for n in range(first, first + BATCH):
            name, args = self.dice.choice(tasks)
            pushes.append(a_push(f"t{n}", name=name, args={"mark": f"t{n}", **args}))
        self.acknowledged += self.fleet.push_all(pushes)

    def wait(self) -> None:
        """Until a moment that falls into the middle of something."""
        begun, more = len(self.fleet.ledger.entries()), self.dice.randrange(1, 30)
        with suppress(AssertionError):  # all that can run may be waiting for a lease to run out
            until(lambda: len(self.fleet.ledger.entries()) > begun + more, seconds=0.3)

    def strike(self, worker: FleetWorker) -> FleetWorker:
        """Kill one of its processes; who has lost the supervisor is replaced."""
        self.kills += 1
        with suppress(psutil.NoSuchProcess, ValueError, IndexError):
            whom = self.dice.choice(("supervisor", "server", "isolate", "isolate"))
            if whom == "server":
                worker.server.kill()
                return worker
            if whom == "isolate":
                self.dice.choice(worker.isolates).kill()
                return worker
        worker.kill()
        return self.fleet.start(is_awaited=False, **SHORT)

    def calm_down(self) -> None:
        """From here on nobody is killed. What was given up as a crash loop gets another chance: the crashes were ours."""
        self.fleet.start(**SHORT)
        until(self._is_quiet, seconds=60, every=0.1)

    def _is_quiet(self) -> bool:
        self.fleet.store.deadletters.replay(DeadFilter(reason="crash-loop"))
        depth = self.fleet.depth()
        return (depth.ready, depth.delayed, depth.running, depth.dead) == (0, 0, 0, 0)
