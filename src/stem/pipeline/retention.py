"""Keep the lake small: few files, one row a minute and key, nothing older than wanted. Rows mean the same before and after."""

import logging
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from stem.pipeline.delta import File, Table
from stem.pipeline.lake import Lake
from stem.pipeline.merging import joined, summed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("stem.pipeline")

# A file grows by merging until it is large and is then left alone, so that a row is rewritten a few times, not every time.
SMALL_BYTES = 16 * 1024 * 1024
MANY_FILES = 32
VACUUM_HOURS = 24  # a reader may take as long with the files that it listed


@dataclass(frozen=True, slots=True)
class Tended:
    """What was done: files merged into fewer, files dropped for their age, files removed from the disk."""

    merged: int = 0
    dropped: int = 0
    removed: int = 0


def tend(
    lake: Lake,
    spark: "SparkSession",
    *,
    keep_seconds: float | None = None,
    many_files: int = MANY_FILES,
    vacuum_hours: int | None = VACUUM_HOURS,
) -> Tended:
    """Compact, drop what is too old, and, unless told not to, remove what nobody reads. Killed at any point, it has done
    part of it and harmed nothing. Only for whoever holds the lake's lock."""
    merged = sum(_compact(lake, table, spark, many_files) for table in lake.tables)
    dropped = 0 if keep_seconds is None else _drop_old(lake, keep_seconds)
    removed = 0 if vacuum_hours is None else sum(table.vacuum(hours=vacuum_hours) for table in lake.tables)
    tended = Tended(merged, dropped, removed)
    if tended != Tended():
        log.info("pipeline.tended merged=%d dropped=%d removed=%d", merged, dropped, removed)
    return tended


def _compact(lake: Lake, table: Table, spark: "SparkSession", many: int) -> int:
    by_day: dict[str, list[File]] = defaultdict(list)
    for file in table.files():
        if file.size < SMALL_BYTES:
            by_day[file.date].append(file)
    crowded = [files for files in by_day.values() if len(files) >= many]
    return sum(_merge(lake, table, spark, files) for files in crowded)


def _merge(lake: Lake, table: Table, spark: "SparkSession", files: list[File]) -> int:
    """Those of one day, in one commit."""
    if table is lake.rollups:
        old, new = files, summed(spark, table, files)
    else:
        old, new = joined(spark, table, files)
    if old:
        table.replace(old, new)
    return len(old)


@dataclass(frozen=True, slots=True)
class Going:
    """What of a lake is too old: whole days before `first_kept`, and how many events they have."""

    days: int
    events: int
    first_kept: str


def going(lake: Lake, keep_seconds: float) -> Going:
    """What `tend` would drop now."""
    first = _first_kept(keep_seconds)
    old = [file for file in lake.events.files() if file.date < first]
    return Going(len({file.date for file in old}), sum(file.rows for file in old), first)


def _drop_old(lake: Lake, keep_seconds: float) -> int:
    """By whole days, so that a day is there or is not."""
    return sum(table.delete_before(_first_kept(keep_seconds)) for table in lake.tables)


def _first_kept(keep_seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=keep_seconds)).date().isoformat()
