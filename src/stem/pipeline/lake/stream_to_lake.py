"""Read events from a store and write them into the lake, once up to now or continuously."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from stem.client.stores import open_store, with_absolute_paths
from stem.contracts.history import Slice
from stem.contracts.store import Store
from stem.core.errors import ConfigError, LakeRefused, StemError, UsageError
from stem.core.settings.app import Settings
from stem.pipeline import schemas
from stem.pipeline.lake import lake as lakes
from stem.pipeline.lake import storage
from stem.pipeline.lake.gaps import Gap, gap_after, record_gap
from stem.pipeline.lake.ingest import Ingest
from stem.pipeline.lake.lake import Lake
from stem.pipeline.lake.lake_lock import LakeLock
from stem.pipeline.lake.retention import MANY_FILES, VACUUM_HOURS, maintain
from stem.pipeline.open_store import opened, without_gc
from stem.pipeline.rollups import queues
from stem.pipeline.rollups.publish import RollupPublisher
from stem.pipeline.schemas import arrow_schema
from stem.pipeline.source import batches
from stem.pipeline.source.next_slice import cut, end_of_next
from stem.pipeline.source.read_options import ReadOptions, read_options
from stem.pipeline.spark.spark_errors import brief, quoted, translated

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("stem.pipeline")

EVENTS_PER_BATCH = 200_000
_EVERY_SECONDS = 1.0
_VACUUM_SECONDS = 3600.0
_MAX_FAILURES = 3

# Settings of the session that make batches fast.
CONF = {
    # Tables name their files one by one; a few thousand are not worth a Spark job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
}


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that is in the lake."""

    number: int
    events: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StreamToLake:
    """Fills the lake at `root` from the store that the settings name."""

    settings: Settings
    root: str
    follow: bool = False
    keep_seconds: float | None = None
    events_per_batch: int = EVENTS_PER_BATCH
    on_batch: Callable[[Batch], None] = lambda _: None
    on_gap: Callable[[Gap], None] = lambda _: None

    def run(self, spark: "Callable[[], SparkSession]", *, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Run until every event that was there is in the lake; with `follow`, until `is_wanted` says no. Raises LakeRefused,
        StemError."""
        with self._store() as store:
            lake = lakes.prepare_lake(self.root, f"{store.url} ({store.namespace})")
            with LakeLock(store, lake) as lock:
                session = spark()
                for name, value in CONF.items():
                    session.conf.set(name, value)
                self._fill(session, store, lake, lambda: is_wanted() and not lock.is_lost)
                if lock.is_lost:
                    raise LakeRefused(
                        f"The lake at {lake.root} was taken over by another pipeline; stop one of the two."
                    )
                maintain(lake, session, keep_seconds=self.keep_seconds)

    @contextmanager
    def _store(self) -> Iterator[Store]:
        store = open_store(with_absolute_paths(self.settings))
        try:
            yield store
        finally:
            store.upkeep.close()

    def _fill(self, spark: "SparkSession", store: Store, lake: Lake, is_wanted: Callable[[], bool]) -> None:
        """Retry a batch that fails, because a store may be away for a moment; give up if several fail in a row."""
        batches = _BatchWriter(self, lake, store, spark)
        last = None if self.follow else store.events.head()
        failures = 0
        while is_wanted():
            began_at = time.monotonic()
            try:
                with translated(_batch_error):
                    is_done = self._is_done(batches, last)
            except StemError as error:
                failures += 1
                if failures > _MAX_FAILURES or isinstance(error, UsageError):
                    raise
                log.warning("pipeline.batch_failed reason=%s", error)
                time.sleep(failures)
                continue
            if is_done:
                return
            failures = 0
            if self.follow:
                time.sleep(max(0.0, began_at + _EVERY_SECONDS - time.monotonic()))

    def _is_done(self, batches: "_BatchWriter", last: str | None) -> bool:
        if self.follow or last is not None:
            return not batches.write_next(last) and not self.follow
        batches.complete()  # the log is empty; later events are for the next run
        return True


class _BatchWriter:
    """Writes one batch after the other. The lake itself says where the next one begins."""

    def __init__(self, stream: StreamToLake, lake: Lake, store: Store, spark: "SparkSession") -> None:
        kept = stream.settings.retention.events_seconds
        kept = kept if stream.keep_seconds is None else min(kept, stream.keep_seconds)
        self._stream = stream
        self._lake = lake
        self._store = store
        self._spark = spark
        settings = stream.settings
        self._options = read_options({"url": settings.broker_url, "namespace": settings.namespace, "table": "events"})
        self._ingest = Ingest(lake, lambda: _sample(store), RollupPublisher(lake, store, keep_seconds=kept))
        self._is_complete = False
        self._since_maintained = 0
        self._vacuumed_at = time.monotonic()

    def write_next(self, last: str | None) -> bool:
        """Write the next batch of events up to `last`, or of all if it is None. False if there are none."""
        began_at = time.monotonic()
        self.complete()
        batch, position, history = self._lake.last_batch, self._lake.position, self._store.history
        upto = end_of_next(history, position, limit=self._stream.events_per_batch, last=last)
        if upto is None or upto == position:
            return False
        self._report_gap(position)
        self._is_complete = False
        pieces = cut(history, position, upto, partitions=self._options.partitions)
        number = 0 if batch is None else batch + 1
        count = self._ingest(_events(self._spark, self._options, pieces), number, upto)
        self._is_complete = True
        self._report(Batch(number, count, time.monotonic() - began_at))
        return True

    def complete(self) -> None:
        """Finish the batch before, if it was interrupted after its commit to bronze, from what bronze has."""
        if not self._is_complete and (batch := self._lake.last_batch) is not None:
            self._ingest(_no_events(self._spark), batch)
        self._is_complete = True

    def _report_gap(self, position: str | None) -> None:
        if (gap := gap_after(self._lake, self._store, position)) is not None:
            log.warning("pipeline.events_missed events=%s since=%s until=%s", gap.events, gap.since, gap.until)
            record_gap(self._lake, gap)
            self._stream.on_gap(gap)

    def _report(self, batch: Batch) -> None:
        log.info("pipeline.batch_written number=%d events=%d seconds=%.2f", batch.number, batch.events, batch.seconds)
        self._stream.on_batch(batch)
        self._since_maintained += 1
        if self._since_maintained >= MANY_FILES:
            self._maintain()

    def _maintain(self) -> None:
        self._since_maintained = 0
        is_due = time.monotonic() - self._vacuumed_at > _VACUUM_SECONDS
        if is_due:
            self._vacuumed_at = time.monotonic()
        hours = VACUUM_HOURS if is_due else None
        maintain(self._lake, self._spark, keep_seconds=self._stream.keep_seconds, vacuum_hours=hours)


def _events(spark: "SparkSession", options: ReadOptions, pieces: list[Slice]) -> "DataFrame":
    """Read on the executors; not by `format("stem")`, of which each use starts a Python process for planning."""
    if not pieces:  # retention has pruned them meanwhile
        return _no_events(spark)
    return spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(partial(_read, options, pieces), schemas.EVENTS)


def _no_events(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame([], schemas.EVENTS)


def _read(options: ReadOptions, pieces: list[Slice], numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Runs on an executor."""
    schema = arrow_schema(schemas.EVENTS)
    with opened(options) as store, without_gc():
        for batch in numbers:
            for number in batch.column("id").to_pylist():
                yield from batches.of_slice(store, pieces[number], "events", schema)


def _sample(store: Store) -> list[dict[str, Any]]:
    """The depth of the queues. A failure does not fail the batch."""
    try:
        return queues.sample(store.broker.depth(), datetime.fromtimestamp(store.upkeep.now(), UTC))
    except StemError as error:
        log.warning("pipeline.sampling_failed reason=%s", error)
        return []


def _batch_error(error: Exception) -> StemError:
    """Describe why a batch failed, by the error of Stem that Spark quotes if there is one."""
    if (found := quoted(error)) is not None:
        return UsageError(str(found)) if isinstance(found, UsageError | ConfigError) else LakeRefused(str(found))
    cause = storage.masked(brief(str(error)))
    return LakeRefused(f"A batch could not be written into the lake ({cause}); nothing is lost, run it again.")
