"""Events into the lake: each once, whatever dies; attempts and rollups that equal a recount."""

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from stem.backends import connect
from stem.contracts.rollups import merged
from stem.contracts.store import Store
from stem.core.errors import LakeRefused
from stem.core.event import Event
from stem.core.settings.app import Retention, Settings
from stem.pipeline import schemas
from stem.pipeline.lake import lake as lakes
from stem.pipeline.lake.delta import Output, Table, write
from stem.pipeline.lake.gaps import Gap
from stem.pipeline.lake.ingest import Ingest
from stem.pipeline.lake.lake import Lake
from stem.pipeline.lake.lake_lock import LakeLock
from stem.pipeline.lake.retention import maintain
from stem.pipeline.lake.stream_to_lake import Batch, StreamToLake
from stem.pipeline.report.report import report
from stem.pipeline.report.text import text
from stem.pipeline.rollups import gold, queues
from stem.pipeline.rollups.minutes import minutes
from stem.pipeline.rollups.publish import RollupPublisher
from support.pipeline.old_lakes import of_schema_1
from support.pipeline.recount import assert_equals_a_recount
from support.pipeline.written_history import live

Fill = Callable[..., Lake]
EVER = (datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/stem.db"


@pytest.fixture
def past(url: str) -> Iterator[Store]:
    store = connect(url, Settings())
    live(store, 300)
    yield store
    store.upkeep.close()


@pytest.fixture
def fill(spark: SparkSession, url: str, tmp_path: Path) -> Fill:
    def run(told: Callable[[Batch], None] = lambda _: None, *, events_per_batch: int = 400) -> Lake:
        root = str(tmp_path / "lake")
        StreamToLake(Settings(broker_url=url), root, on_batch=told, events_per_batch=events_per_batch).run(
            lambda: spark
        )
        return lakes.open_lake(root)

    return run


def test_every_event_is_in_the_lake_once_and_every_attempt_and_minute_counts_what_happened(
    spark: SparkSession, past: Store, fill: Fill
) -> None:
    fill()
    live(past, 100, worker="w2")
    lake = fill()
    logged = past.events.read(None, limit=10_000)
    assert sorted(row.offset for row in lake.events.frame(spark).collect()) == sorted(e.offset for e in logged)
    assert_equals_a_recount(spark, lake, logged)


def test_a_lake_that_was_begun_before_there_was_any_event_is_filled_when_they_come(
    spark: SparkSession, url: str, fill: Fill
) -> None:
    store = connect(url, Settings())
    for _ in range(2):
        assert fill().position is None
    live(store, 100)
    fill()
    live(store, 20, worker="w2")
    lake = fill()
    assert_equals_a_recount(spark, lake, store.events.read(None, limit=10_000))
    store.upkeep.close()


def test_a_lake_of_schema_1_goes_on_where_the_checkpoint_of_spark_ended(
    spark: SparkSession, past: Store, url: str, tmp_path: Path
) -> None:
    root, logged = str(tmp_path / "lake"), past.events.read(None, limit=10_000)
    half = logged[: len(logged) // 2]
    lake = of_schema_1(root, past, half[-1].offset)
    Ingest(lake)(frame(spark, half), 0)
    StreamToLake(Settings(broker_url=url), root).run(lambda: spark)
    lake = lakes.open_lake(root)
    assert (lake.last_batch, lake.position) == (1, logged[-1].offset)
    assert json.loads(Path(root, "stem.json").read_text())["schema"] == 2, "an older Stem could fill it once more"
    assert_equals_a_recount(spark, lake, logged)


def test_a_batch_that_was_cut_off_behind_bronze_is_completed_and_the_store_is_told_of_it(
    spark: SparkSession, past: Store, fill: Fill, url: str, tmp_path: Path
) -> None:
    lake = fill(events_per_batch=10_000)
    live(past, 50)
    logged = past.events.read(None, limit=10_000)
    fresh = [event for event in logged if int(event.offset) > int(lake.position or 0)]

    def crash() -> list[dict[str, object]]:
        raise RuntimeError("killed here")

    with pytest.raises(RuntimeError, match="killed here"):
        Ingest(lake, crash)(frame(spark, fresh), 1, fresh[-1].offset)
    told: list[Batch] = []
    lake = fill(told.append)
    assert told == [] and lake.last_batch == 1
    assert_equals_a_recount(spark, lake, logged)
    assert in_the_store(past) == in_gold(lake)


def test_of_two_that_bring_a_batch_at_the_same_moment_one_is_refused(
    spark: SparkSession, past: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lakes.prepare_lake(str(tmp_path / "lake"), "a store")
    other = lakes.open_lake(lake.root)
    logged = past.events.read(None, limit=10_000)
    files = write(frame(spark, logged), [Output(lake.events, "at")], batch=0)[0]
    late = write(frame(spark, logged[:100]), [Output(other.events, "at")], batch=0)[0]
    assert other.last_batch is None  # it has looked, and goes on with what it saw
    seen = other.events._log()
    monkeypatch.setattr(other.events, "_log", lambda: seen)
    lake.events.commit(files, app=lake.id, batch=0, position="7")
    with pytest.raises(LakeRefused, match="Concurrent transaction"):
        other.events.commit(late, app=lake.id, batch=0, position="3")
    assert lakes.open_lake(lake.root).position == "7"
    assert lake.events.frame(spark).count() == len(logged)


def test_a_crash_between_bronze_and_gold_leaves_the_rest_to_the_next_try_though_the_store_forgot_the_events(
    spark: SparkSession, past: Store, tmp_path: Path
) -> None:
    lake = lakes.prepare_lake(str(tmp_path / "lake"), "a store")
    logged = past.events.read(None, limit=10_000)

    def crash() -> list[dict[str, object]]:
        raise RuntimeError("killed here")

    with pytest.raises(RuntimeError, match="killed here"):
        Ingest(lake, crash)(frame(spark, logged), 0)
    assert lake.rollups.files() == []
    Ingest(lake, list)(frame(spark, []), 0)
    Ingest(lake, list)(frame(spark, logged), 0)
    assert_equals_a_recount(spark, lake, logged)


def test_the_store_has_what_gold_has_also_of_a_batch_whose_driver_was_killed_before_it_landed(
    spark: SparkSession, past: Store, tmp_path: Path
) -> None:
    lake = lakes.prepare_lake(str(tmp_path / "lake"), "a store")
    landing = RollupPublisher(lake, past, keep_seconds=86400.0)
    logged = past.events.read(None, limit=10_000)
    first, second, third = (frame(spark, logged[n::3]) for n in range(3))

    def crash(batch: int) -> None:
        raise RuntimeError(f"killed at {batch}")

    Ingest(lake, list, landing)(first, 0)
    with pytest.raises(RuntimeError, match="killed at 1"):
        Ingest(lake, list, crash)(second, 1)
    assert in_the_store(past) != in_gold(lake)
    for _ in range(2):
        Ingest(lake, list, landing)(second, 1)
        assert in_the_store(past) == in_gold(lake)
    Ingest(lake, lambda: queues.sample(past.broker.depth(), logged[0].at), landing)(third, 2)
    assert in_the_store(past) == in_gold(lake)
    assert sum(row["runs"] for row in in_the_store(past).values() if "runs" in row) > 0


def test_compaction_leaves_few_files_and_changes_no_answer(spark: SparkSession, past: Store, fill: Fill) -> None:
    lake = fill(events_per_batch=150)
    before = answers(spark, lake)
    assert all(len(table.files()) >= 5 for table in lake.tables)
    maintain(lake, spark, many_files=2, vacuum_hours=None)
    days = {file.date for file in lake.rollups.files()}
    assert all(len(table.files()) <= len(days) for table in lake.tables)
    assert answers(spark, lake) == before
    assert maintain(lake, spark, many_files=2, vacuum_hours=None).merged == 0
    assert_equals_a_recount(spark, lake, past.events.read(None, limit=10_000))


def test_files_of_a_failed_try_and_old_days_are_removed(spark: SparkSession, past: Store, fill: Fill) -> None:
    lake = fill()
    write(lake.events.frame(spark).limit(10), [Output(lake.events, "at")], batch=77)
    assert maintain(lake, spark, vacuum_hours=0).removed == 1
    assert lake.events.frame(spark).count() == len(past.events.read(None, limit=10_000))
    assert maintain(lake, spark, keep_seconds=86400.0, vacuum_hours=None).dropped == 0
    dropped = maintain(lake, spark, keep_seconds=-2 * 86400.0, vacuum_hours=0)
    assert dropped.dropped == dropped.removed > 0
    assert all(table.files() == [] for table in lake.tables)


def test_a_table_of_an_older_stem_gains_the_columns_that_it_lacks(spark: SparkSession, tmp_path: Path) -> None:
    old = Table(str(tmp_path / "table"), "offset string, at timestamp")
    old.create()
    rows = spark.sql("select '1' as offset, timestamp'2026-01-01 00:00:00' as at")
    old.commit(write(rows, [Output(old, "at")])[0], app="a", batch=0)
    new = Table(old.root, "offset string, at timestamp, colour string")
    new.create()
    more = spark.sql("select '2' as offset, timestamp'2026-01-01 00:00:00' as at, 'red' as colour")
    new.commit(write(more, [Output(new, "at")])[0], app="a", batch=1)
    assert {(row.offset, row.colour) for row in new.frame(spark).collect()} == {("1", None), ("2", "red")}


def test_events_that_the_store_dropped_unread_are_reported_once_and_shown_in_the_report(
    spark: SparkSession, past: Store, url: str, fill: Fill
) -> None:
    lake, read = fill(events_per_batch=1000), int(past.events.head() or 0)
    live(past, 200)
    pruning = connect(url, Settings(retention=Retention(events_count=100)))
    while pruning.upkeep.prune():
        continue
    pruning.upkeep.close()
    (oldest,) = past.events.read(None, limit=1)
    told: list[Gap] = []
    for _ in range(2):
        StreamToLake(Settings(broker_url=url), lake.root, on_gap=told.append).run(lambda: spark)
        live(past, 1)
    assert [gap.events for gap in told] == [int(oldest.offset) - read - 1] and told[0].until == oldest.at
    made = report(lake, spark, since=EVER[0], until=EVER[1])
    assert made.gaps == told and text(made).count(f"warning: {told[0].events:,} events were dropped by the store") == 1


def test_a_lake_of_a_newer_stem_is_refused_and_left_alone(past: Store, fill: Fill) -> None:
    lake = fill()
    page = Path(lake.root, "stem.json")
    page.write_text(json.dumps(json.loads(page.read_text()) | {"schema": 99}))
    before = tree(lake.root)
    live(past, 10)
    with pytest.raises(LakeRefused, match="newer Stem"):
        fill()
    with pytest.raises(LakeRefused, match="newer Stem"):
        lakes.open_lake(lake.root)
    assert tree(lake.root) == before


def test_lakes_that_cannot_be_filled_are_refused_in_a_sentence(past: Store, fill: Fill, tmp_path: Path) -> None:
    lake = fill()
    with pytest.raises(LakeRefused, match="filled from"):
        lakes.prepare_lake(lake.root, "another store")
    with pytest.raises(LakeRefused, match="no lake at"):
        lakes.open_lake(str(tmp_path / "nowhere"))
    with pytest.raises(LakeRefused, match="No lake can be made"):
        lakes.prepare_lake("/proc/lake", "a store")
    old = of_schema_1(str(tmp_path / "old"), past, "1")
    shutil.rmtree(Path(old.root, "checkpoint"))
    old.events.commit([], app=old.id, batch=0)
    with pytest.raises(LakeRefused, match="lost its checkpoint"):
        _ = old.position
    log = next(Path(lake.events.root, "_delta_log").glob("*.json"))
    log.write_text("{ not json")
    with pytest.raises(LakeRefused, match="cannot be used"):
        fill()
    Path(lake.root, "stem.json").write_text("[]")
    with pytest.raises(LakeRefused, match="cannot be read"):
        lakes.open_lake(lake.root)


def test_one_writer_a_lake_and_one_that_was_killed_does_not_count(past: Store, fill: Fill) -> None:
    lake = fill()
    past.locks.acquire(f"pipeline:{lake.id}", owner="other-machine:1:1", ttl_seconds=60)
    with pytest.raises(LakeRefused, match="Another pipeline"):
        fill()
    past.locks.release(f"pipeline:{lake.id}", owner="other-machine:1:1")
    with LakeLock(past, lake) as holding:
        ours = past.locks.owner(f"pipeline:{lake.id}")
        assert ours is not None
        assert not holding.is_lost
    host = ours.rsplit(":", 2)[0]
    past.locks.acquire(f"pipeline:{lake.id}", owner=f"{host}:1:boot+12345", ttl_seconds=60)
    fill()


def in_gold(lake: Lake) -> dict[tuple[object, ...], dict[str, object]]:
    """By key, what is not nothing; percentiles too."""
    return {
        tuple(row[key] for key in gold.KEYS): {
            name: pytest.approx(value) for name, value in row.items() if value and name not in gold.KEYS
        }
        for row in minutes(lake, *EVER)
    }


def in_the_store(store: Store) -> dict[tuple[object, ...], dict[str, Any]]:
    found = merged(store.rollups.read(*EVER), gold.KEYS)
    return {key: {name: value for name, value in told.shown().items() if value} for key, told in found.items()}


def answers(spark: SparkSession, lake: Lake) -> tuple[object, ...]:
    rollups = gold.over(lake.rollups.frame(spark), *gold.KEYS).drop("run_seconds", "wait_seconds", "busy_seconds")
    return (
        sorted(map(str, rollups.drop("wasted_seconds").collect())),
        sorted(map(str, lake.events.frame(spark).collect())),
        sorted(map(str, lake.attempts.frame(spark).collect())),
    )


def frame(spark: SparkSession, events: list[Event]) -> DataFrame:
    """The events as the source gives them."""
    rows = [
        (
            event.offset, event.kind.value, event.at, event.task_id, event.name, event.queue, event.attempt, event.worker,
            None, event.enqueued_at, event.started_at, (event.data.get("error") or {}).get("type"),
            (event.data.get("error") or {}).get("message"), json.dumps(event.data),
        )
        for event in events
    ]  # fmt: skip
    return spark.createDataFrame(rows, schemas.EVENTS)


def tree(root: str) -> set[Path]:
    return {path for path in Path(root).rglob("*") if path.is_file()}
