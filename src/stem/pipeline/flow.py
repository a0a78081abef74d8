"""Events into the lake, up to now or for as long as they come."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from stem.backends import placed
from stem.client.link import open_store
from stem.contracts.history import Slice
from stem.contracts.store import Store
from stem.core.config import Settings
from stem.core.errors import LakeRefused, StemError, UsageError
from stem.pipeline import batches, shapes
from stem.pipeline import lake as lakes
from stem.pipeline.asked import Asked, asked
from stem.pipeline.delta import arrow_schema
from stem.pipeline.gaps import Gap, gap_after, noted
from stem.pipeline.holding import Holding
from stem.pipeline.ingest import Ingest
from stem.pipeline.lake import Lake
from stem.pipeline.landing import Landing
from stem.pipeline.reach import opened, uncollected
from stem.pipeline.retention import MANY_FILES, VACUUM_HOURS, tend
from stem.pipeline.rollups import queues
from stem.pipeline.stretch import cut, end_of_next

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("stem.pipeline")

EVENTS_A_BATCH = 200_000
_EVERY_SECONDS = 1.0
_VACUUM_SECONDS = 3600.0
_MOST_FALLS = 3

# What a session needs to be quick at this; held by Spark as its own settings.
CONF = {
    # Files are named to it one by one; listing a few thousand is no job for executors.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
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
                self._fill(session, store, lake, lambda: is_wanted() and not holding.is_lost)
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

    def _fill(self, spark: "SparkSession", store: Store, lake: Lake, is_wanted: Callable[[], bool]) -> None:
        """A batch that falls over is tried again, a Python that starts too slowly or a store that is away for a moment being
        no reason to give up; but not for ever while nothing gets through."""
        batches = _Batches(self, lake, store, spark)
        last = None if self.follow else store.events.head()
        falls = 0
        while is_wanted():
            began_at = time.monotonic()
            try:
                with _in_a_sentence():
                    is_done = self._is_done(batches, last)
            except StemError as error:
                falls += 1
                if falls > _MOST_FALLS or isinstance(error, UsageError):
                    raise
                log.warning("pipeline.fell reason=%s", error)
                time.sleep(falls)
                continue
            if is_done:
                return
            falls = 0
            if self.follow:
                time.sleep(max(0.0, began_at + _EVERY_SECONDS - time.monotonic()))

    def _is_done(self, batches: "_Batches", last: str | None) -> bool:
        if self.follow or last is not None:
            return not batches.bring_next(last) and not self.follow
        batches.complete()  # the log is empty, and what comes from now on is for the next run
        return True


class _Batches:
    """Bring one batch after the other into the lake. Where the next one begins is asked of the lake each time."""

    def __init__(self, flow: Flow, lake: Lake, store: Store, spark: "SparkSession") -> None:
        kept = flow.settings.retention.events_seconds
        kept = kept if flow.keep_seconds is None else min(kept, flow.keep_seconds)
        self._flow = flow
        self._lake = lake
        self._store = store
        self._spark = spark
        self._asked = asked({"url": flow.settings.broker_url, "namespace": flow.settings.namespace, "table": "events"})
        self._ingest = Ingest(lake, lambda: _sample(store), Landing(lake, store, keep_seconds=kept))
        self._is_whole = False
        self._since_tended = 0
        self._vacuumed_at = time.monotonic()

    def bring_next(self, last: str | None) -> bool:
        """Of the events up to `last`; None: of all that come. False: there is none."""
        began_at = time.monotonic()
        self.complete()
        batch, position, history = self._lake.last_batch, self._lake.position, self._store.history
        upto = end_of_next(history, position, limit=self._flow.events_a_batch, last=last)
        if upto is None or upto == position:
            return False
        self._tell_gap(position)
        self._is_whole = False
        pieces = cut(history, position, upto, partitions=self._asked.partitions)
        number = 0 if batch is None else batch + 1
        count = self._ingest(_events(self._spark, self._asked, pieces), number, upto)
        self._is_whole = True
        self._tell(Batch(number, count, time.monotonic() - began_at))
        return True

    def complete(self) -> None:
        """The batch before may have been cut off behind bronze: the rest of it, out of what bronze has."""
        if not self._is_whole and (batch := self._lake.last_batch) is not None:
            self._ingest(_no_events(self._spark), batch)
        self._is_whole = True

    def _tell_gap(self, position: str | None) -> None:
        if (gap := gap_after(self._lake, self._store, position)) is not None:
            log.warning("pipeline.gap events=%s since=%s until=%s", gap.events, gap.since, gap.until)
            noted(self._lake, gap)
            self._flow.warned(gap)

    def _tell(self, batch: Batch) -> None:
        log.info("pipeline.batch number=%d events=%d seconds=%.2f", batch.number, batch.events, batch.seconds)
        self._flow.told(batch)
        self._since_tended += 1
        if self._since_tended >= MANY_FILES:
            self._tend()

    def _tend(self) -> None:
        self._since_tended = 0
        is_due = time.monotonic() - self._vacuumed_at > _VACUUM_SECONDS
        if is_due:
            self._vacuumed_at = time.monotonic()
        hours = VACUUM_HOURS if is_due else None
        tend(self._lake, self._spark, keep_seconds=self._flow.keep_seconds, vacuum_hours=hours)


def _events(spark: "SparkSession", asked: Asked, pieces: list[Slice]) -> "DataFrame":
    """Read where there is room to; not by `format("stem")`, whose every use starts a Python process to plan with."""
    if not pieces:  # retention was quicker
        return _no_events(spark)
    return spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(partial(_read, asked, pieces), shapes.EVENTS)


def _no_events(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame([], shapes.EVENTS)


def _read(asked: Asked, pieces: list[Slice], numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Runs in an executor's Python."""
    schema = arrow_schema(shapes.EVENTS)
    with opened(asked) as store, uncollected():
        for batch in numbers:
            for number in batch.column("id").to_pylist():
                yield from batches.of_slice(store, pieces[number], "events", schema)


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    """What Spark raises, in Stem's own words where they are behind it."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
        raise _reason(error) from error


def _sample(store: Store) -> list[dict[str, Any]]:
    """How the queues stand. Worth no batch: a store that is away is missed by whoever reads events."""
    try:
        return queues.sample(store.broker.depth(), datetime.fromtimestamp(store.upkeep.now(), UTC))
    except StemError as error:
        log.warning("pipeline.unsampled reason=%s", error)
        return []


def _reason(error: Exception) -> StemError:
    """What a batch died of, in its own words where they are Stem's."""
    text = str(error)
    for line in text.splitlines():
        kind, found, sentence = line.strip().partition(": ")
        if found and kind.startswith("stem.core.errors."):
            is_usage = kind.rpartition(".")[2] in ("UsageError", "ConfigError")
            return UsageError(sentence) if is_usage else LakeRefused(sentence)
    first = text.strip().partition("\n")[0][:400]
    return LakeRefused(f"A batch could not be brought into the lake ({first}); nothing is lost, run it again.")
