"""Deploys: workers are told to stop one after the other, by TERM, under load. Nothing is lost, nothing runs twice."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.test_workers import check
from stem.core.envelope import Push
from support.builders import a_push
from support.workers.fleet import Fleet, a_fleet

# A hundred on each store, with the campaign's variable set.
RESTARTS = 100 if "STEM_CAMPAIGN_SECONDS" in os.environ else 6
WORKERS = 2
BATCH = 30


@pytest.fixture
def fleet(durable_url: str, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(durable_url, namespace, tmp_path)


@pytest.mark.timeout(900)
def test_rolling_restarts_lose_nothing_and_repeat_nothing(fleet: Fleet) -> None:
    workers = [fleet.start(is_awaited=False, concurrency=2) for _ in range(WORKERS)]
    fleet.ready(*workers)
    sent: list[str] = []
    for restart in range(RESTARTS):
        sent += fleet.push_all([_push(len(sent) + n) for n in range(BATCH)])
        leaving = workers[restart % WORKERS]
        workers[restart % WORKERS] = fleet.start(is_awaited=False, concurrency=2)
        fleet.ready(workers[restart % WORKERS])
        leaving.process.send_signal(signal.SIGTERM)
        assert leaving.process.wait(timeout=30) == 0
    fleet.ended(sent, seconds=60)
    check(fleet, sent)
    assert set(fleet.ledger.runs().values()) == {1}, "a deploy made a task run twice"


def _push(number: int) -> Push:
    mark = f"t{number}"
    if number % 3:
        return a_push(mark, name="note", args={"mark": mark})
    return a_push(mark, name="nap", args={"mark": mark, "seconds": 0.2})
