"""One batch of events into the lake: bronze, silver and gold, each once, however often the batch is tried."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stem.pipeline import silver
from stem.pipeline.delta import File, Output, Table, write
from stem.pipeline.lake import Lake
from stem.pipeline.rollups import gold

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Sample = Callable[[], list[dict[str, Any]]]
Land = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Ingest:
    """Called with each batch. A crash between two commits leaves the rest to the next try, which skips what is there."""

    lake: Lake
    sample: Sample = list  # partial rows of what no event tells
    land: Land = lambda _: None  # gold of a batch, where others read it; told again of one that is tried again

    def __call__(self, events: "DataFrame", batch: int, position: str | None = None) -> int:
        """Bronze remembers the position with the batch: after a crash the next one begins behind it. Returns how many
        events the batch brought; 0 for one that was there."""
        brought = self._written(events, batch, position)
        self.land(batch)
        return brought

    def _written(self, events: "DataFrame", batch: int, position: str | None) -> int:
        lacking = [table for table in self.lake.tables if self._lacks(table, batch)]
        if not lacking:
            return 0
        # All tables of a batch are made of the same rows: once bronze is there, of what it kept, for the store may have
        # forgotten some since.
        kept = [] if self.lake.events in lacking else self.lake.events.files_of(batch)
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

    def _sampled(self, batch: int) -> Sequence[File]:
        if not (rows := self.sample()):
            return ()
        return self.lake.rollups.put(rows, day="minute", batch=batch)

    def _lacks(self, table: Table, batch: int) -> bool:
        last = table.last_batch(self.lake.id)
        return last is None or last < batch


def derived(events: "pa.Table") -> "Sequence[pa.Table]":
    """Bronze, silver and gold of some events, where they are."""
    attempts = silver.attempts_of(events)
    return events, attempts, gold.partials(events, attempts)
