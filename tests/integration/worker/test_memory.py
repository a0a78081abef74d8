"""The system ends an isolate for lack of memory: the task is told apart from other crashes, and nobody else is harmed."""

from pathlib import Path

import pytest

from stem.core.delivery import DeadFilter
from stem.core.lifecycle import EventKind, State
from support.stores.snapshot import lives
from support.workers.cgroups import move, narrow
from support.workers.fleet import Fleet

LITTLE = 256 << 20  # enough for a worker and its isolates, and not for a task that takes all it gets


PATIENCE = 300.0  # where memory is scarce and the machine is busy, each of the three runs may take its time


@pytest.mark.timeout(4 * PATIENCE)
@pytest.mark.parametrize("way", ["gorge", "recurse"])
def test_a_task_that_takes_all_memory_is_killed_by_the_system_and_fails_with_the_reason(
    tmp_path: Path, namespace: str, way: str
) -> None:
    with narrow(LITTLE) as group, Fleet(f"sqlite:///{tmp_path}/stem.db", namespace, tmp_path) as fleet:
        worker = fleet.start(lease_seconds=PATIENCE)  # else a machine that is busy enough makes it a lost worker's
        move(group, *(process.pid for process in worker.tree()))
        fleet.push(way, "glutton")
        fleet.push("note", *(f"n{number}" for number in range(50)))
        assert fleet.ended(["glutton"], seconds=PATIENCE)["glutton"].state is State.FAILED
        others = fleet.ended([f"n{number}" for number in range(50)], seconds=PATIENCE)
        assert {record.state for record in others.values()} == {State.SUCCEEDED}
        (letter,) = fleet.store.deadletters.page(DeadFilter(), limit=5).items
        assert (letter.reason, letter.meta["deaths"], fleet.ledger.runs()["glutton"]) == ("crash-loop", 3, 3)
        assert letter.error is not None and "was killed by the system for lack of memory" in letter.error.message
        told = [event for event in lives(fleet.store)["glutton"] if event.kind is EventKind.REQUEUED]
        assert len(told) == 2 and all("for lack of memory" in event.data["reason"] for event in told)
        assert fleet.ended(fleet.push("note", "after"), seconds=PATIENCE)["after"].state is State.SUCCEEDED
        assert worker.is_alive
        assert worker.stop(seconds=PATIENCE) == 0
