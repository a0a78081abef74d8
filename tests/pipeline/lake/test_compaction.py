"""Many files into few: the same rows, whoever wrote them and whatever dies."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from stem.pipeline.lake import delta, scan
from stem.pipeline.lake import lake as lakes
from stem.pipeline.lake.compaction import merge_files
from stem.pipeline.lake.delta import Table
from stem.pipeline.lake.retention import Maintenance, maintain

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
OLD, NEW = "offset string, at timestamp", "offset string, at timestamp, colour string"


def put(table: Table, batch: int, **more: str) -> None:
    rows = [{"offset": f"{batch}-{n % 90}", "at": NOON + timedelta(seconds=n), **more} for n in range(100)]
    table.commit(table.put(rows, day="at", batch=batch), app="a", batch=batch)


def rows(spark: SparkSession, table: Table) -> list[str]:
    return sorted(map(str, table.frame(spark).collect()))


def test_files_of_an_older_stem_and_of_this_one_become_fewer_with_the_same_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = Table(str(tmp_path), OLD), Table(str(tmp_path), NEW)
    old.create()
    for batch in range(3):
        put(old, batch)
    new.create()
    for batch in range(3, 7):
        put(new, batch, colour="red")
    before, files = rows(spark, new), new.files()
    monkeypatch.setattr(scan, "_PIECE_BYTES", 3 * max(file.size for file in files))
    given, fewer = merge_files(spark, new, files)
    assert rows(spark, new) == before  # until the commit, whoever dies has changed nothing
    new.replace(given, fewer)
    assert rows(spark, new) == before
    assert sorted(file.rows for file in new.files()) == [100, 300, 300]  # one was left over
    assert len(given) == 6
    written = [pq.read_metadata(f"{new.root}/{file.path}") for file in new.files()]
    assert all(meta.num_row_groups == 1 for meta in written)
    assert len({str(meta.schema.to_arrow_schema()) for meta in written}) == 1
    assert {meta.row_group(0).column(0).compression for meta in written} == {"ZSTD"}


def test_a_file_has_row_groups_of_a_portion_though_many_small_files_made_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table(str(tmp_path), OLD)
    table.create()
    big = [{"offset": str(n), "at": NOON} for n in range(delta.ROWS_AT_ONCE - 150)]
    table.commit(table.put(big, day="at", batch=0), app="a", batch=0)
    for batch in range(1, 4):
        put(table, batch)
    table.replace(*merge_files(spark, table, table.files()))
    (file,) = table.files()
    meta = pq.read_metadata(f"{table.root}/{file.path}")
    groups = [meta.row_group(n).num_rows for n in range(meta.num_row_groups)]
    assert sum(groups) == file.rows == delta.ROWS_AT_ONCE + 150
    assert groups == [delta.ROWS_AT_ONCE, 150]


def test_a_merge_that_is_killed_before_its_commit_is_done_again_and_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lakes.prepare_lake(str(tmp_path), "a store")
    for batch in range(4):
        put(lake.events, batch)
    before = rows(spark, lake.events)

    def killed(*_: object) -> None:
        raise RuntimeError("killed here")

    with monkeypatch.context() as here:
        here.setattr(Table, "replace", killed)
        with pytest.raises(RuntimeError, match="killed here"):
            maintain(lake, spark, many_files=4, vacuum_hours=None)
    assert rows(spark, lake.events) == before
    assert maintain(lake, spark, many_files=4, vacuum_hours=0) == Maintenance(
        merged=4, removed=5
    )  # the four, and what was left
    assert rows(spark, lake.events) == before
    assert len(list(tmp_path.rglob("date=*/*.parquet"))) == 1
