"""Events into the lake, up to now or for as long as they come."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stem.backends import placed
from stem.client.link import open_store
from stem.contracts.store import Store
from stem.core.config import Settings
from stem.core.errors import LakeRefused, StemError, UsageError
from stem.pipeline import lake as lakes
from stem.pipeline.gaps import Gap, gap_before, noted
from stem.pipeline.holding import Holding
from stem.pipeline.ingest import Ingest
from stem.pipeline.lake import Lake
from stem.pipeline.landing import Landing
from stem.pipeline.retention import MANY_FILES, VACUUM_HOURS, tend
from stem.pipeline.rollups import queues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("stem.pipeline")

EVENTS_A_BATCH = 200_000
_EVERY = "1 second"
_WATCH_SECONDS = 1
_VACUUM_SECONDS = 3600.0
_MOST_FALLS = 3

# What a session needs to be quick at this; held by Spark as its own settings.
CONF = {
    # Files are named to it one by one; listing a few thousand is no job for executors.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.streaming.minBatchesToRetain": "20",
}


@dataclass(frozen=True, slots=True)
class Batch:
    """What became of one batch, told as it is done."""

    number: int
    events: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Flow:
    """Fill the lake at `root` from the store that the settings name."""

    settings: Settings
    root: str
    follow: bool = False
    keep_seconds: float | None = None
    events_a_batch: int = EVENTS_A_BATCH
    told: Callable[[Batch], None] = lambda _: None
    warned: Callable[[Gap], None] = lambda _: None

    def run(self, spark: "Callable[[], SparkSession]", *, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Until all that was there has been read, or, to follow, until no longer wanted. Raises LakeRefused, StemError."""
        with self._store() as store:
            lake = lakes.prepared(self.root, f"{store.url} ({store.namespace})")
            with Holding(store, lake) as holding:
                session = spark()
                for name, value in CONF.items():
                    session.conf.set(name, value)
                self._stream(session, store, lake, lambda: is_wanted() and not holding.is_lost)
                if holding.is_lost:
                    raise LakeRefused(f"The lake at {lake.root} was lost to another pipeline; stop one of the two.")
                tend(lake, session, keep_seconds=self.keep_seconds)

    @contextmanager
    def _store(self) -> Iterator[Store]:
        store = open_store(placed(self.settings))
        try:
            yield store
        finally:
            store.upkeep.close()

    def _stream(self, spark: "SparkSession", store: Store, lake: Lake, is_wanted: Callable[[], bool]) -> None:
        """Begun again where it ended if it falls over, a Python that starts too slowly or a store that is away for a moment
        being no reason to give up; but not for ever while nothing gets through."""
        kept = self.settings.retention.events_seconds
        landing = Landing(lake, store, keep_seconds=kept if self.keep_seconds is None else min(kept, self.keep_seconds))
        batches = _Batches(self, lake, store, Ingest(lake, lambda: _sample(store), landing))
        falls = done = 0
        while True:
            query = self._start(spark, lake, batches)
            try:
                self._watch(query, is_wanted)
                return
            except StemError as error:
                falls = 1 if batches.done > done else falls + 1
                done = batches.done
                if falls > _MOST_FALLS or isinstance(error, UsageError):
                    raise
                log.warning("pipeline.fell reason=%s", error)
                time.sleep(falls)
            finally:
                query.stop()

    def _start(self, spark: "SparkSession", lake: Lake, batches: "_Batches") -> "StreamingQuery":
        events = (
            spark.readStream.format("stem")
            .option("url", self.settings.broker_url)
            .option("namespace", self.settings.namespace)
            .option("table", "events")
            .option("maxEventsPerTrigger", str(self.events_a_batch))
            .load()
        )
        writer = events.writeStream.foreachBatch(batches).option("checkpointLocation", lake.checkpoint)
        return (writer.trigger(processingTime=_EVERY) if self.follow else writer.trigger(availableNow=True)).start()

    def _watch(self, query: "StreamingQuery", is_wanted: Callable[[], bool]) -> None:
        from pyspark.errors import StreamingQueryException

        try:
            while is_wanted() and not query.awaitTermination(_WATCH_SECONDS):
                continue
        except StreamingQueryException as error:
            raise _reason(error) from error


class _Batches:
    """Called by Spark, batch by batch, in a thread of this process."""

    def __init__(self, flow: Flow, lake: Lake, store: Store, ingest: Ingest) -> None:
        self._flow = flow
        self._lake = lake
        self._store = store
        self._ingest = ingest
        self.done = 0
        self._since_tended = 0
        self._vacuumed_at = time.monotonic()

    def __call__(self, events: "DataFrame", number: int) -> None:
        began_at = time.monotonic()
        if (gap := gap_before(self._lake, self._store, number)) is not None:
            log.warning("pipeline.gap events=%s since=%s until=%s", gap.events, gap.since, gap.until)
            noted(self._lake, gap)
            self._flow.warned(gap)
        count = self._ingest(events, number)
        seconds = time.monotonic() - began_at
        log.info("pipeline.batch number=%d events=%d seconds=%.2f", number, count, seconds)
        self._flow.told(Batch(number, count, seconds))
        self.done += 1
        self._since_tended += 1
        if self._since_tended >= MANY_FILES:
            self._tend(events.sparkSession)

    def _tend(self, spark: "SparkSession") -> None:
        self._since_tended = 0
        is_due = time.monotonic() - self._vacuumed_at > _VACUUM_SECONDS
        if is_due:
            self._vacuumed_at = time.monotonic()
        hours = VACUUM_HOURS if is_due else None
        tend(self._lake, spark, keep_seconds=self._flow.keep_seconds, vacuum_hours=hours)


def _sample(store: Store) -> list[dict[str, Any]]:
    """How the queues stand. Worth no batch: a store that is away is missed by whoever reads events."""
    try:
        return queues.sample(store.broker.depth(), datetime.fromtimestamp(store.upkeep.now(), UTC))
    except StemError as error:
        log.warning("pipeline.unsampled reason=%s", error)
        return []


def _reason(error: Exception) -> StemError:
    """What the stream died of, in its own words where they are Stem's."""
    text = str(error)
    for line in text.splitlines():
        kind, found, sentence = line.strip().partition(": ")
        if found and kind.startswith("stem.core.errors."):
            is_usage = kind.rpartition(".")[2] in ("UsageError", "ConfigError")
            return UsageError(sentence) if is_usage else LakeRefused(sentence)
    first = text.strip().partition("\n")[0][:400]
    return LakeRefused(f"The stream into the lake ended ({first}); nothing is lost, run it again.")
