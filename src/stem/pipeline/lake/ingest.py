"""Write one batch of events into bronze, silver and gold, each once, however often the batch is tried."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stem.pipeline.attempts import attempts_of
from stem.pipeline.lake.delta import DataFile, Output, Table, write
from stem.pipeline.lake.lake import Lake
from stem.pipeline.rollups import gold

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Sample = Callable[[], list[dict[str, Any]]]
Publish = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Ingest:
    """Called with each batch. After a crash between two commits, the next try skips what is already there."""

    lake: Lake
    sample: Sample = list  # partial rows that no event yields
    publish: Publish = lambda _: None  # called with the number of each batch that gold has, also of one tried again

    def __call__(self, events: "DataFrame", batch: int, position: str | None = None) -> int:
        """Bronze stores the position with the batch, so that after a crash the next one begins there. Returns the number of
        events written; 0 for a batch that was there."""
        count = self._written(events, batch, position)
        self.publish(batch)
        return count

    def _written(self, events: "DataFrame", batch: int, position: str | None) -> int:
        missing = [table for table in self.lake.tables if self._is_missing(table, batch)]
        if not missing:
            return 0
        # All tables of a batch are made of the same rows. Once bronze has them, read them there: the store may have pruned some.
        kept = [] if self.lake.events in missing else self.lake.events.files_of(batch)
        rows = self.lake.events.frame(events.sparkSession, kept).drop("date") if kept else events
        written = write(rows, self._outputs(), derive=derived, batch=batch)
        for table, files in zip(self.lake.tables, written, strict=True):
            if table is self.lake.rollups:
                files = [*files, *self._sampled(batch)]
            reached = position if table is self.lake.events else None
            table.commit(files, app=self.lake.id, batch=batch, position=reached)
        return sum(file.rows for file in written[0])

    def _outputs(self) -> list[Output]:
        return [Output(table, self.lake.day_of(table)) for table in self.lake.tables]

    def _sampled(self, batch: int) -> Sequence[DataFile]:
        if not (rows := self.sample()):
            return ()
        return self.lake.rollups.put(rows, day="minute", batch=batch)

    def _is_missing(self, table: Table, batch: int) -> bool:
        last = table.last_batch(self.lake.id)
        return last is None or last < batch


def derived(events: "pa.Table") -> "Sequence[pa.Table]":
    """The rows of bronze, silver and gold for some events."""
    attempts = attempts_of(events)
    return events, attempts, gold.partials(events, attempts)
