"""The lake by one command from the stores of a fleet: each event of the log once, also those that come between two runs."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stem.cli.main import run as stem
from stem.contracts.store import Store
from stem.pipeline import lake as lakes
from support.asking import all_events
from support.past import live
from support.recount import assert_equals_a_recount


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """The command ends on SIGTERM in its own way."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("durable_url", ["redis", "postgres"], indirect=True)
def test_the_lake_has_the_log_of_a_server_once(
    spark: SparkSession,
    durable_url: str,
    durable_store: Store,
    namespace: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    where = ["--broker-url", durable_url, "--namespace", namespace, "--lake", str(tmp_path / "lake"), "--json"]
    brought = 0
    for tasks in (600, 100):
        live(durable_store, tasks)
        assert stem(["pipeline", "run", "--once", "--batch", "1000", *where]) == 0
        brought += json.loads(capfd.readouterr().out)["events"]
    logged = all_events(durable_store)
    lake = lakes.opened(str(tmp_path / "lake"))
    kept = [row.offset for row in lake.events.frame(spark).select("offset").collect()]
    assert len(logged) > 2000
    assert (brought, sorted(kept)) == (len(logged), sorted(event.offset for event in logged))
    assert_equals_a_recount(spark, lake, logged)
