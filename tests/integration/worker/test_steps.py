"""Durable steps in real workers: recorded across crashes, and no slot or lease held while a task sleeps or waits."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stem.core.lifecycle import State
from support.until import until
from support.workers.fleet import Fleet, a_fleet
from support.workers.processes import desk

APP = "support.worker_apps.stepping:app"


@pytest.fixture
def fleet(durable_url: str, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(durable_url, namespace, tmp_path)


def test_a_step_recorded_before_a_crash_is_not_repeated(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start(app_path=APP)
    fleet.push("crash-after-step", "t0", flag=str(tmp_path / "crashed"))
    record = fleet.ended(["t0"], seconds=15.0)["t0"]
    assert record.result() == ["t0-first", "t0-second"]
    assert fleet.ledger.runs() == {"t0-first": 1, "t0-second": 1}
    assert [step.name for step in fleet.store.steps.all("t0")] == ["first", "second"]


def test_waiting_tasks_hold_no_slot_and_no_lease_and_go_on_with_their_event(
    fleet: Fleet, durable_url: str, namespace: str
) -> None:
    fleet.start(app_path=APP, concurrency=1)
    ids = fleet.push("approve", *(f"t{n}" for n in range(5)))
    until(lambda: len(fleet.ledger.runs()) == 5)
    until(lambda: fleet.depth().running == 0)
    assert fleet.depth().delayed == 5
    with desk(durable_url, namespace) as sender:
        for id in ids:
            sender.app.send_event(id, "approved", {"of": id})
    records = fleet.ended(ids, seconds=10.0)
    assert {id: record.result() for id, record in records.items()} == {id: {"of": id} for id in ids}
    assert {record.attempt for record in records.values()} == {0}
    assert set(fleet.ledger.runs().values()) == {1}


def test_a_coroutine_sleeps_without_a_slot_and_resumes_in_another_worker(fleet: Fleet) -> None:
    first = fleet.start(app_path=APP)
    (id,) = fleet.push("sleeper", "t0", seconds=2.0)
    until(lambda: fleet.depth().delayed == 1)
    first.kill()
    fleet.start(app_path=APP)
    record = fleet.ended([id], seconds=10.0)[id]
    assert (record.state, record.result()) == (State.SUCCEEDED, 0)
    assert fleet.ledger.runs() == {"t0-before": 1}
