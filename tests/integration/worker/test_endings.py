"""Tasks that end in a way of their own: at most once, without a value, or dropped."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stem.core.delivery import DeadFilter
from stem.core.lifecycle import EventKind, State
from support.stores.snapshot import lives
from support.until import until
from support.workers.fleet import Fleet, a_fleet

SHORT: dict[str, Any] = {"lease_seconds": 2.0, "reclaim_seconds": 0.25}


@pytest.fixture
def fleet(durable_url: str, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(durable_url, namespace, tmp_path)


def test_a_task_that_runs_at_most_once_is_not_begun_again_when_its_worker_is_killed(
    fleet: Fleet, tmp_path: Path
) -> None:
    first = fleet.start(**SHORT)
    (id,) = fleet.push("once", "t0", file=str(tmp_path / "go"))
    fleet.ledger.begun(id)
    first.kill()
    fleet.start(**SHORT)
    record = fleet.ended([id])[id]
    letter = fleet.store.deadletters.get(id)
    assert letter is not None and (record.state, letter.reason) == (State.FAILED, "at-most-once")
    assert fleet.ledger.runs() == {id: 1}
    (tmp_path / "go").touch()
    assert fleet.store.deadletters.replay(DeadFilter()) == [id]  # which an operator may do
    until(lambda: fleet.record(id).state is State.SUCCEEDED, seconds=30)
    assert fleet.ledger.runs() == {id: 2}


def test_nor_when_its_isolate_falls(fleet: Fleet) -> None:
    fleet.start()
    (id,) = fleet.push("fall-once", "t0")
    assert fleet.ended([id])[id].state is State.FAILED
    assert fleet.ledger.runs() == {id: 1}


def test_nor_when_it_is_stopped_at_its_hard_limit_whatever_its_sender_asked_for(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start(hard_limit=0.5)
    (id,) = fleet.push("once", "t0", file=str(tmp_path / "never"), options={"max_retries": 5})
    assert fleet.ended([id])[id].state is State.FAILED
    assert fleet.ledger.runs() == {id: 1}


def test_one_that_was_claimed_and_goes_back_unbegun_runs_on_another_worker(fleet: Fleet, tmp_path: Path) -> None:
    first = fleet.start(concurrency=1)
    (busy,) = fleet.push("until-there", "busy", file=str(tmp_path / "go"))
    fleet.ledger.begun(busy)
    (id,) = fleet.push("once", "t0", file=str(tmp_path / "go"))
    until(lambda: fleet.depth().running == 2, seconds=30)  # it waits in the worker
    second = fleet.start(concurrency=1)
    first.send(15)
    until(lambda: fleet.ledger.runs()[id] == 1, seconds=30)
    (tmp_path / "go").touch()
    assert {record.state for record in fleet.ended([busy, id]).values()} == {State.SUCCEEDED}
    assert fleet.record(id).worker == second.name
    assert fleet.ledger.runs() == {busy: 1, id: 1}
    until(lambda: fleet.store.locks.owner(f"once:{id}") is None)


def test_a_value_that_is_not_wanted_is_not_kept(fleet: Fleet) -> None:
    fleet.start()
    (id,) = fleet.push("ignored", "t0")
    record = fleet.ended([id])[id]
    assert (record.state, record.result()) == (State.SUCCEEDED, None)


def test_a_task_that_drops_itself_is_cancelled_without_a_retry_or_a_letter(fleet: Fleet) -> None:
    fleet.start()
    (id,) = fleet.push("dropped", "t0", options={"max_retries": 5})
    record = fleet.ended([id])[id]
    assert record.error is not None
    assert (record.state, record.error.message) == (State.CANCELLED, "the customer is gone")
    assert fleet.store.deadletters.get(id) is None
    assert fleet.ledger.runs() == {id: 1}
    assert [event.kind for event in lives(fleet.store)[id]][-1] is EventKind.REVOKED
