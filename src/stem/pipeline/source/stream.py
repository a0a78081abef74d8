"""`spark.readStream.format("stem")`: read the log as it grows, each event exactly once."""

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from stem.contracts.store import Store
from stem.core.errors import UsageError
from stem.pipeline.source.next_slice import cut, is_beyond
from stem.pipeline.source.read_options import EARLIEST, LATEST, read_options
from stem.pipeline.source.source import checked, of_table, read

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

log = logging.getLogger("stem.pipeline")


class StemStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives as long as its query, beside the driver; copies of it read on executors. Offsets are the store's, of the last
    event read; empty before the first."""

    def __init__(self, options: Mapping[str, str], schema: "StructType") -> None:
        self.options = read_options(options, is_stream=True)
        self.schema = checked(schema, self.options.table)
        self._opened: Store | None = None
        self._is_bounded = False
        self._target: str | None = None  # where a bounded query ends

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}  # connections stay in this process

    def initialOffset(self) -> dict[str, str]:
        match self.options.starting:
            case "earliest":
                return _offset(None)
            case "latest":
                return _offset(self._store.events.head())
            case given:
                self._check(given)
                return _offset(given)

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        after = start["offset"] or None
        if isinstance(limit, ReadMaxRows):
            upto = self._store.history.advance(after, limit=limit.max_rows)
        else:
            upto = self._store.events.head() or after
        if self._is_bounded and upto != after and self._is_beyond_target(upto):
            upto = self._target or after
        return _offset(upto)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.options.max_events)

    def reportLatestOffset(self) -> dict[str, str]:
        return _offset(self._store.events.head())

    def prepareForTriggerAvailableNow(self) -> None:
        self._is_bounded, self._target = True, self._store.events.head()

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        after, upto = start["offset"] or None, end["offset"]
        if not upto or upto == after:
            return []
        self._check_for_loss(after)
        where = of_table(self.options.table, self.options.where(self._store.upkeep.now()))
        pieces = cut(self._store.history, after, upto, partitions=self.options.partitions, where=where)
        return [InputPartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read(self.options, self.schema, partition)

    def commit(self, end: dict[str, str]) -> None:
        """Nothing to do: the store keeps events for as long as its retention says."""

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.upkeep.close()
            self._opened = None

    @property
    def _store(self) -> Store:
        if self._opened is None:
            self._opened = self.options.open()
        return self._opened

    def _check_for_loss(self, after: str | None) -> None:
        """Raise UsageError if events were pruned before they were read; with failOnDataLoss=false, log it."""
        missed = 0 if after is None else self._store.history.missed(after)
        if missed == 0:
            return
        many = "Some events may have been" if missed is None else f"{missed:,} events were"
        loss = f"{many} dropped by the store's retention behind offset {after}, before this stream read them"
        if self.options.fails_on_loss:
            raise UsageError(
                f'{loss}; set .option("failOnDataLoss", "false") to go on without them, read more often, or keep more.'
            )
        log.warning("stream.events_missed events=%s after=%s", missed, after)

    def _is_beyond_target(self, upto: str | None) -> bool:
        return self._target is None or is_beyond(self._store.history, upto, self._target)

    def _check(self, offset: str) -> None:
        try:
            self._store.history.advance(offset, limit=1)
        except (UsageError, ValueError):
            raise UsageError(
                f"startingOffset {offset!r} is not an offset of this store; use {EARLIEST}, {LATEST}, or one that it gave."
            ) from None


def _offset(offset: str | None) -> dict[str, str]:
    return {"offset": offset or ""}
