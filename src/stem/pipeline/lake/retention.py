"""Keep the lake small: merge small files, drop old days, remove files that nobody reads."""

import logging
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from stem.pipeline.lake.compaction import merge_files, merge_rollups
from stem.pipeline.lake.delta import DataFile, Table
from stem.pipeline.lake.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("stem.pipeline")

# Only small files are merged, so that each row is rewritten a few times and not every time.
SMALL_BYTES = 16 * 1024 * 1024
MANY_FILES = 32
VACUUM_HOURS = 24  # how long a reader may use the files that it listed


@dataclass(frozen=True, slots=True)
class Maintenance:
    """How many files were merged into fewer, dropped because of their age, and removed from storage."""

    merged: int = 0
    dropped: int = 0
    removed: int = 0


def maintain(
    lake: Lake,
    spark: "SparkSession",
    *,
    keep_seconds: float | None = None,
    many_files: int = MANY_FILES,
    vacuum_hours: int | None = VACUUM_HOURS,
) -> Maintenance:
    """Compact, drop old days, and vacuum unless `vacuum_hours` is None. It may be killed at any point. Only for the holder of
    the lake's lock."""
    merged = sum(_compact(lake, table, spark, many_files) for table in lake.tables)
    dropped = 0 if keep_seconds is None else _drop_old(lake, keep_seconds)
    removed = 0 if vacuum_hours is None else sum(table.vacuum(hours=vacuum_hours) for table in lake.tables)
    done = Maintenance(merged, dropped, removed)
    if done != Maintenance():
        log.info("pipeline.lake_compacted merged=%d dropped=%d removed=%d", merged, dropped, removed)
    return done


def _compact(lake: Lake, table: Table, spark: "SparkSession", many: int) -> int:
    by_day: dict[str, list[DataFile]] = defaultdict(list)
    for file in table.files():
        if file.size < SMALL_BYTES:
            by_day[file.date].append(file)
    crowded = [files for files in by_day.values() if len(files) >= many]
    return sum(_merge(lake, table, spark, files) for files in crowded)


def _merge(lake: Lake, table: Table, spark: "SparkSession", files: list[DataFile]) -> int:
    """Merge the files of one day, in one commit."""
    if table is lake.rollups:
        old, new = files, merge_rollups(spark, table, files)
    else:
        old, new = merge_files(spark, table, files)
    if old:
        table.replace(old, new)
    return len(old)


@dataclass(frozen=True, slots=True)
class Expiring:
    """What is too old: the days before `first_kept`, and their events."""

    days: int
    events: int
    first_kept: str


def expiring(lake: Lake, keep_seconds: float) -> Expiring:
    """What `maintain` would drop now."""
    first = _first_kept(keep_seconds)
    old = [file for file in lake.events.files() if file.date < first]
    return Expiring(len({file.date for file in old}), sum(file.rows for file in old), first)


def _drop_old(lake: Lake, keep_seconds: float) -> int:
    """Drop whole days."""
    return sum(table.delete_before(_first_kept(keep_seconds)) for table in lake.tables)


def _first_kept(keep_seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=keep_seconds)).date().isoformat()
