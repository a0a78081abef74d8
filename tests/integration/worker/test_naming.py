"""Two workers never go by one name; one that takes the place of a dead one keeps the name."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stem.client.stores import open_store
from stem.core.lifecycle import State
from stem.core.settings.app import Settings
from stem.worker.naming import claim_name
from support.until import until
from support.workers.fleet import Fleet, a_fleet
from support.workers.steerable import GONE_PID


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


def test_workers_that_start_at_the_same_instant_get_a_name_each(durable_url: str, namespace: str) -> None:
    """None of them has beaten yet when the others look."""
    start = threading.Barrier(6)

    def claim() -> str:
        store = open_store(Settings(broker_url=durable_url, namespace=namespace))
        start.wait(20)
        try:
            return claim_name("twin", store.heartbeats, store.locks).name
        finally:
            store.upkeep.close()

    with ThreadPoolExecutor(6) as pool:
        names = [found.result() for found in [pool.submit(claim) for _ in range(6)]]
    assert sorted(names) == ["twin", *(f"twin-{number}" for number in range(2, 7))]


def test_a_name_that_one_took_who_died_before_it_was_heard_of_is_free(durable_url: str, namespace: str) -> None:
    store = open_store(Settings(broker_url=durable_url, namespace=namespace))
    try:
        first = claim_name("fixed", store.heartbeats, store.locks)
        first.release()
        host, _, process, number = first.owner.split(" ")
        gone = f"{host} {GONE_PID} {process} {number}"
        assert store.locks.acquire("worker.name.fixed", owner=gone, ttl_seconds=60) is not None
        assert claim_name("fixed", store.heartbeats, store.locks).name == "fixed"
    finally:
        store.upkeep.close()


def test_the_first_heartbeat_gives_the_lock_of_the_name_back(fleet: Fleet) -> None:
    fleet.start(name="known")
    until(lambda: fleet.store.locks.owner("worker.name.known") is None)
