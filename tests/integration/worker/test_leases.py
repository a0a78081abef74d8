"""Leases of a real worker: kept however long a task runs, lost when it is frozen, and fenced from then on."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stem.core.lifecycle import EventKind, State
from support.builders import done
from support.stores.snapshot import lives
from support.until import until
from support.workers.fleet import Fleet, FleetWorker, a_fleet

SHORT: dict[str, Any] = {"lease_seconds": 2.0, "reclaim_seconds": 0.25}
THREE_LEASES = 6.0


@pytest.fixture
def fleet(durable_url: str, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(durable_url, namespace, tmp_path)


@pytest.mark.parametrize("task", ["until-there", "nap"])
def test_a_worker_frozen_for_three_leases_does_not_get_its_ending_through(
    fleet: Fleet, tmp_path: Path, task: str
) -> None:
    """`until-there` ends when thawed, `nap` goes on: the one is refused, the other stopped."""
    workers = two_workers(fleet)
    go = tmp_path / "go"
    (id,) = fleet.push(task, "t0", **({"file": str(go)} if task == "until-there" else {"seconds": THREE_LEASES + 0.5}))
    first, second = holder_first(fleet, workers, id)
    frozen_at = time.monotonic()
    first.send_all(signal.SIGSTOP)
    until(lambda: fleet.ledger.runs()[id] == 2)
    go.touch()
    until(lambda: time.monotonic() - frozen_at > THREE_LEASES)
    first.send_all(signal.SIGCONT)
    assert fleet.ended([id])[id].worker == second.name
    assert_it_succeeded_once(fleet, id, first, second)


def test_a_supervisor_frozen_alone_does_not_get_its_ending_through(fleet: Fleet, tmp_path: Path) -> None:
    workers = two_workers(fleet)
    go = tmp_path / "go"
    (id,) = fleet.push("until-there", "t0", file=str(go))
    first, second = holder_first(fleet, workers, id)
    frozen_at = time.monotonic()
    first.send(signal.SIGSTOP)
    go.touch()  # it ends in the first worker, whose supervisor hears of it too late
    fleet.ended([id])
    until(lambda: time.monotonic() - frozen_at > THREE_LEASES)
    first.send(signal.SIGCONT)
    assert_it_succeeded_once(fleet, id, first, second)


def test_a_worker_that_was_frozen_keeps_tasks_that_no_other_worker_took(fleet: Fleet, tmp_path: Path) -> None:
    """A machine that slept, with its only worker: leases ran out, and nobody was there to mind."""
    worker = fleet.start(**SHORT, heartbeat_seconds=0.1)
    ids = fleet.push("until-there", "t0", "t1", file=str(tmp_path / "go"))
    until(lambda: len(fleet.ledger.runs()) == 2)
    up_for = until(lambda: fleet.pulses().get(worker.name)).uptime_seconds
    worker.send_all(signal.SIGSTOP)
    frozen_at = time.monotonic()
    until(lambda: time.monotonic() - frozen_at > 2.5, every=0.05)
    worker.send_all(signal.SIGCONT)
    until(lambda: [p.uptime_seconds for p in fleet.pulses().values() if p.uptime_seconds > up_for + 3.5])
    (proof,) = fleet.push("note", "proof")
    (tmp_path / "go").touch()
    fleet.ended([*ids, proof])
    assert fleet.ledger.runs() == dict.fromkeys([*ids, proof], 1)


def test_a_task_that_died_while_its_supervisor_was_frozen_has_died(fleet: Fleet) -> None:
    """When the supervisor goes on it must not say, by renewing the lease that it has lost, that the task lives."""
    worker = fleet.start(lease_seconds=1.0, reclaim_seconds=60.0, concurrency=1)
    (id,) = fleet.push("nap", "t0", seconds=600)
    until(lambda: fleet.ledger.runs()[id] == 1)
    until(lambda: fleet.record(id).state is State.RUNNING)
    worker.send(signal.SIGSTOP)
    for isolate in worker.isolates:
        isolate.kill()
    broker = fleet.store.broker
    until(lambda: broker.reclaim().returned == [id])
    (taken,) = broker.claim(["default"], limit=1, lease_seconds=1.0)
    assert taken.deaths == 1
    broker.start([taken.lease], worker="other")
    worker.send(signal.SIGCONT)
    until(lambda: "its ending was refused" in worker.text)
    until(lambda: (found := broker.reclaim(max_deaths=2)).dead + found.returned)
    assert fleet.record(id).state is State.FAILED, "after its second death"


def two_workers(fleet: Fleet) -> list[FleetWorker]:
    workers = [fleet.start(is_awaited=False, **SHORT) for _ in range(2)]
    fleet.ready(*workers)
    return workers


def holder_first(fleet: Fleet, workers: list[FleetWorker], id: str) -> list[FleetWorker]:
    """The one that runs the task, then the other."""
    server = fleet.ledger.begun(id).server
    return sorted(workers, key=lambda worker: worker.server.pid != server)


def assert_it_succeeded_once(fleet: Fleet, id: str, first: FleetWorker, second: FleetWorker) -> None:
    (proof,) = fleet.push("note", "proof", options={"queue": "default"})
    fleet.ended([proof])
    assert first.stop() == 0
    assert second.stop() == 0
    kinds = [event.kind for event in lives(fleet.store)[id]]
    assert kinds.count(EventKind.SUCCEEDED) == 1
    assert (fleet.record(id).state, fleet.record(id).worker) == (State.SUCCEEDED, second.name)
    assert fleet.record(id).attempt == 0
    assert fleet.ledger.runs()[id] == 2


@pytest.mark.parametrize("task", ["nap", "doze"])
def test_a_lost_lease_stops_the_run(fleet: Fleet, task: str) -> None:
    worker = fleet.start(**SHORT)
    (id,) = fleet.push(task, "t0", seconds=60.0)
    fleet.ledger.begun(id)
    worker.send(signal.SIGSTOP)
    until(lambda: id in fleet.store.broker.reclaim().returned)
    (delivery,) = fleet.store.broker.claim(["default"], limit=1, lease_seconds=60)
    isolates = worker.isolates
    worker.send(signal.SIGCONT)
    if task == "nap":
        until(lambda: sum(isolate.is_running() for isolate in isolates) == 1)
    else:
        until(lambda: (pulse := fleet.pulses().get(worker.name)) and pulse.in_flight == 0, seconds=30)
    assert fleet.store.broker.settle([done(delivery, "mine")], worker="test") == []
    assert fleet.record(id).result() == "mine"
    (next_one,) = fleet.push("note", "next")  # and it goes on
    assert fleet.ended([next_one])[next_one].state is State.SUCCEEDED
    assert fleet.ledger.entries("end") == []


def test_tasks_five_times_as_long_as_the_lease_run_once_each(fleet: Fleet) -> None:
    workers = [fleet.start(is_awaited=False, lease_seconds=2.0, async_concurrency=25) for _ in range(4)]
    fleet.ready(*workers)
    ids = fleet.push("doze", *(f"t{n}" for n in range(200)), seconds=10.0)
    records = fleet.ended(ids, seconds=60)
    assert {record.state for record in records.values()} == {State.SUCCEEDED}
    assert fleet.ledger.runs() == dict.fromkeys(ids, 1)
    assert {record.worker for record in records.values()} == {worker.name for worker in workers}
