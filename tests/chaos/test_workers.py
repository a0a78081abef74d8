"""Real workers, fork servers and isolates killed at random moments under load: every task ends, and ends once."""

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from stem.core.delivery import DeadFilter
from stem.core.lifecycle import EventKind, State
from support.arrows import walk
from support.builders import a_push
from support.facts import lives
from support.fleet import Fleet, FleetWorker, a_fleet
from support.until import until

SECONDS = float(os.environ.get("STEM_CAMPAIGN_SECONDS", "5"))
WORKERS = 3
BATCH = 40
SHORT: dict[str, Any] = {"concurrency": 2, "lease_seconds": 1.0, "reclaim_seconds": 0.25}


@pytest.fixture
def fleet(durable_url: str, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(durable_url, namespace, tmp_path)


def test_nothing_is_lost_or_doubled_while_workers_are_killed(fleet: Fleet) -> None:
    seed = int(os.environ.get("STEM_CAMPAIGN_SEED") or random.randrange(2**32))
    print(f"STEM_CAMPAIGN_SEED={seed} STEM_CAMPAIGN_SECONDS={SECONDS:g}")
    campaign = Campaign(fleet, random.Random(seed))
    campaign.run()
    assert campaign.kills > SECONDS, "hardly anyone was killed; the campaign proves nothing"
    campaign.calm_down()
    fleet.ended(campaign.acknowledged, seconds=60)
    check(fleet, campaign.acknowledged)


class Campaign:
    def __init__(self, fleet: Fleet, dice: random.Random) -> None:
        self.fleet = fleet
        self.dice = dice
        self.acknowledged: list[str] = []
        self.kills = 0

    def run(self) -> None:
        workers = [self.fleet.start(is_awaited=False, **SHORT) for _ in range(WORKERS)]
        self.fleet.ready(*workers)
        self.load()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
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


def check(fleet: Fleet, acknowledged: list[str]) -> None:
    """As many results as acknowledgements, one success each, a legal life each, and no run that nobody asked for."""
    records, runs, told = fleet.store.results.get(acknowledged), fleet.ledger.runs(), lives(fleet.store)
    assert {record.state for record in records.values()} == {State.SUCCEEDED}
    assert set(records) == set(acknowledged) == set(runs) == set(told)
    for id in acknowledged:
        assert records[id].result() == id
        assert [event.kind for event in told[id]].count(EventKind.SUCCEEDED) == 1
        assert walk(told[id]) is State.SUCCEEDED
    deaths = sum(event.kind is EventKind.REQUEUED for events in told.values() for event in events)
    replays = sum(event.kind is EventKind.REPLAYED for events in told.values() for event in events)
    # A run more than a task has endings: something was killed in its middle, and the log says so.
    assert len(acknowledged) <= sum(runs.values()) <= len(acknowledged) + deaths + replays
    print(f"{len(acknowledged)} tasks, {sum(runs.values())} runs, {deaths} given back")


def test_a_campaign_ends_no_worker_by_itself(fleet: Fleet) -> None:
    """A worker whose isolates are killed one after the other lives on."""
    worker = fleet.start(**SHORT)
    ids = fleet.push("nap", *(f"t{n}" for n in range(60)), seconds=0.05)
    for _ in range(15):
        victims = until(lambda: worker.isolates)
        with suppress(psutil.NoSuchProcess):
            random.choice(victims).send_signal(signal.SIGKILL)
        begun = len(fleet.ledger.entries("begin"))
        until(lambda: len(fleet.ledger.entries("begin")) > begun or fleet.depth().ready == 0)  # noqa: B023
    records = fleet.ended(ids)
    crashed = {id for id, record in records.items() if record.state is not State.SUCCEEDED}
    assert len(crashed) <= 1, crashed
    assert worker.is_alive
