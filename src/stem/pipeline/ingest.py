"""One batch of events into the lake: bronze, silver and gold, each once, however often the batch is tried."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stem.pipeline import silver
from stem.pipeline.delta import File, Output, write
from stem.pipeline.lake import Lake
from stem.pipeline.rollups import gold

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Sample = Callable[[], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Ingest:
    """What foreachBatch calls. A crash between two commits leaves the rest to the next try, which skips what is there."""

    lake: Lake
    sample: Sample  # partial rows of what no event tells

    def __call__(self, events: "DataFrame", batch: int) -> None:
        if self._lacks("rollups", batch):  # the last to be written
            files = self._kept(events, batch)
            self._count(events, files, batch)

    def _kept(self, events: "DataFrame", batch: int) -> list[File]:
        """Bronze and silver in one pass. Returns the batch's bronze files."""
        lake, rows = self.lake, silver.ended
        bronze, attempts = Output(lake.events, "at"), Output(lake.attempts, "finished_at", silver.ENDED)
        if self._lacks("events", batch):
            kept, ended = write(rows(events), [bronze, attempts], batch=batch)
            lake.events.commit(kept, app=lake.id, batch=batch)
            lake.attempts.commit(ended, app=lake.id, batch=batch)
            return kept
        kept = lake.events.files_of(batch)
        if self._lacks("attempts", batch):
            (ended,) = write(rows(self._again(events, kept)), [attempts], batch=batch)
            lake.attempts.commit(ended, app=lake.id, batch=batch)
        return kept

    def _count(self, events: "DataFrame", files: list[File], batch: int) -> None:
        from pyspark.sql import functions as F

        lake = self.lake
        partials = gold.partials(self._again(events, files))
        if samples := self.sample():
            told = events.sparkSession.createDataFrame(samples, gold.SHAPE)
            partials = partials.unionByName(told)
        day = F.to_date("minute")
        (counted,) = write(partials.coalesce(1).withColumn("day", day), [Output(lake.rollups, "day")], batch=batch)
        lake.rollups.commit(counted, app=lake.id, batch=batch)

    def _again(self, events: "DataFrame", files: list[File]) -> "DataFrame":
        """What was kept of the batch: cheaper to read than the store, and there when the store has forgotten it."""
        if not files:
            return events
        return self.lake.events.frame(events.sparkSession, files).drop("date")

    def _lacks(self, table: str, batch: int) -> bool:
        last = getattr(self.lake, table).last_batch(self.lake.id)
        return last is None or last < batch
