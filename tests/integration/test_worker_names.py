"""Two workers never go by one name; one that takes the place of a dead one keeps the name."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from stem.core.lifecycle import State
from support.fleet import Fleet, a_fleet


@pytest.fixture
def fleet(durable_url: str, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(durable_url, namespace, tmp_path)


def test_a_second_worker_of_a_name_gets_a_suffix_and_says_so(fleet: Fleet) -> None:
    first = fleet.start(name="twin")
    second = fleet.start(name="twin", is_awaited=False)
    second.wait_until_up()
    second.name = "twin-2"
    fleet.ready(first, second)
    assert "worker.renamed name=twin-2" in second.text and f"process {first.pid}" in second.text
    assert "worker.started name=twin-2" in second.text and "worker.renamed" not in first.text
    assert {name: beat.pid for name, beat in fleet.pulses().items()} == {"twin": first.pid, "twin-2": second.pid}
    assert first.stop() == 0
    (record,) = fleet.ended(fleet.push("note", "n")).values()
    assert (record.state, record.worker) == (State.SUCCEEDED, "twin-2")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_that_starts_again_keeps_its_name(fleet: Fleet, number: int) -> None:
    first = fleet.start(name="fixed")
    first.send(number)
    first.process.wait(20)
    second = fleet.start(name="fixed")
    assert "worker.renamed" not in second.text and "worker.started name=fixed " in second.text
