"""The lake by one command from the stores of a fleet: each event of the log once, also those that come between two runs."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from stem.cli.main import run as stem
from stem.contracts.store import Store
from stem.core.delivery import Ending
from stem.core.envelope import call_facts
from stem.core.outcome import Dead, Done
from stem.core.record import TaskError
from stem.pipeline.lake import lake as lakes
from stem.pipeline.lake import retention
from stem.pipeline.rollups import gold
from support.builders import a_push
from support.pipeline.old_lakes import of_schema_1
from support.pipeline.recount import assert_equals_a_recount
from support.pipeline.written_history import live
from support.stores.calls import all_events
from support.until import until


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
    lake = lakes.open_lake(str(tmp_path / "lake"))
    kept = [row.offset for row in lake.events.frame(spark).select("offset").collect()]
    assert len(logged) > 2000
    assert (brought, sorted(kept)) == (len(logged), sorted(event.offset for event in logged))
    assert_equals_a_recount(spark, lake, logged)


@pytest.mark.parametrize("durable_url", ["sqlite", "redis", "postgres"], indirect=True)
@pytest.mark.parametrize("is_of_the_version_before", [False, True])
def test_a_lake_that_was_first_run_before_the_store_had_any_event_is_filled_when_they_come(
    spark: SparkSession,
    durable_url: str,
    durable_store: Store,
    namespace: str,
    is_of_the_version_before: bool,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The version before left a batch of nothing behind, and could never bring another."""
    root = str(tmp_path / "lake")
    where = ["--broker-url", durable_url, "--namespace", namespace, "--lake", root]
    if is_of_the_version_before:
        lake = of_schema_1(root, durable_store, "")
        for table in lake.tables:
            table.commit([], app=lake.id, batch=0)
    assert stem(["pipeline", "run", "--once", *where, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["events"] == 0
    live(durable_store, 100)
    assert stem(["pipeline", "run", "--once", *where, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["events"] == len(all_events(durable_store))
    assert_equals_a_recount(spark, lakes.open_lake(root), all_events(durable_store))


@pytest.mark.parametrize("durable_url", ["sqlite", "redis", "postgres"], indirect=True)
def test_a_run_that_follows_an_empty_store_brings_what_comes(
    spark: SparkSession, durable_url: str, durable_store: Store, namespace: str, tmp_path: Path
) -> None:
    root = str(tmp_path / "lake")

    def produce() -> None:
        until(lambda: Path(root, "gold").exists(), seconds=60)
        live(durable_store, 100)
        until(lambda: lakes.open_lake(root).position == durable_store.events.head(), seconds=60)
        os.kill(os.getpid(), signal.SIGTERM)

    producer = threading.Thread(target=produce)
    producer.start()
    where = ["--broker-url", durable_url, "--namespace", namespace, "--lake", root]
    assert stem(["pipeline", "run", "--follow", *where]) == 0
    producer.join()
    assert stem(["pipeline", "run", *where]) == 0  # the signal may have met a batch between bronze and silver
    assert_equals_a_recount(spark, lakes.open_lake(root), all_events(durable_store))


@pytest.mark.parametrize("durable_url", ["sqlite"], indirect=True)
def test_the_retention_of_a_lake_needs_a_unit_and_says_what_will_be_deleted(
    spark: SparkSession,
    durable_url: str,
    durable_store: Store,
    namespace: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = str(tmp_path / "lake")
    where = ["--broker-url", durable_url, "--namespace", namespace, "--lake", root]
    live(durable_store, 50)
    assert stem(["pipeline", "run", *where]) == 0
    lake, logged = lakes.open_lake(root), len(all_events(durable_store))
    assert stem(["pipeline", "run", "--keep", "90", *where]) == 64
    assert "has no unit" in capfd.readouterr().err
    assert stem(["pipeline", "run", "--keep", "90s", *where]) == 64
    assert "--yes" in capfd.readouterr().err
    assert stem(["pipeline", "run", "--keep", "90s", "--yes", *where]) == 0
    assert stem(["pipeline", "run", "--keep", "90d", *where]) == 0
    assert "drops" not in capfd.readouterr().err and lake.events.frame(spark).count() == logged
    in_a_year = datetime.now(UTC) + timedelta(days=365)

    class Later(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return in_a_year

    monkeypatch.setattr(retention, "datetime", Later)
    assert stem(["pipeline", "run", "--keep", "90d", *where]) == 0
    assert f"--keep drops {logged:,} events of" in capfd.readouterr().err
    assert lake.events.frame(spark).count() == 0


@pytest.mark.parametrize("durable_url", ["sqlite", "redis", "postgres"], indirect=True)
def test_a_rollup_counts_all_events_of_a_task_under_one_tenant(
    spark: SparkSession, durable_url: str, durable_store: Store, namespace: str, tmp_path: Path
) -> None:
    broker = durable_store.broker
    broker.push([a_push(id, name="mail.send", headers={"tenant": "acme"}) for id in ("ends", "dies", "waits")])
    broker.push([a_push("expires", name="mail.send", headers={"tenant": "acme"}, expires=0.0)])
    for delivery in broker.claim(["default"], limit=2, lease_seconds=60):
        settlement = (
            Dead("refused", TaskError("ValueError", "no")) if delivery.lease.id == "dies" else Done(msgspec.Raw(b"1"))
        )
        ending = Ending(delivery.lease, settlement, run_seconds=0.5, facts=call_facts(delivery.body))
        broker.settle([ending], worker="w1")
    assert broker.cancel(["waits"]) == ["waits"]
    assert broker.claim(["default"], limit=9, lease_seconds=60) == []  # ends the expired one
    where = ["--broker-url", durable_url, "--namespace", namespace, "--lake", str(tmp_path / "lake")]
    assert stem(["pipeline", "run", "--once", *where]) == 0
    frame = lakes.open_lake(str(tmp_path / "lake")).rollups.frame(spark)
    tasks = [row.asDict() for row in gold.over(frame, *gold.KEYS).collect() if row["name"] is not None]
    counted = {kind: sum(row[kind] or 0 for row in tasks) for kind in ("enqueued", "started", "succeeded", "failed")}
    assert counted == {"enqueued": 4, "started": 2, "succeeded": 1, "failed": 1}
    assert {row["tenant"] for row in tasks} == {"acme"}
