"""Real workers, fork servers and isolates killed at random moments under load: every task ends, and ends once."""

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from stem.core.lifecycle import EventKind, State
from support.stores.lifecycle_check import walk
from support.stores.snapshot import lives
from support.until import until
from support.workers.fleet import Fleet, a_fleet
from support.workers.kills import SHORT, Campaign

SECONDS = float(os.environ.get("STEM_CAMPAIGN_SECONDS", "5"))


@pytest.fixture
def fleet(durable_url: str, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(durable_url, namespace, tmp_path)


def test_nothing_is_lost_or_doubled_while_workers_are_killed(fleet: Fleet) -> None:
    seed = int(os.environ.get("STEM_CAMPAIGN_SEED") or random.randrange(2**32))
    print(f"STEM_CAMPAIGN_SEED={seed} STEM_CAMPAIGN_SECONDS={SECONDS:g}")
    campaign = Campaign(fleet, random.Random(seed))
    end = time.monotonic() + SECONDS
    # So many at least, however long it takes: without them the campaign would prove nothing.
    campaign.run(lambda: time.monotonic() > end and campaign.kills > SECONDS)
    campaign.calm_down()
    fleet.ended(campaign.acknowledged, seconds=60)
    check(fleet, campaign.acknowledged)


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
