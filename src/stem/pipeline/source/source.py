"""`spark.read.format("stem")`: read tables of a store, one slice per partition."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.datasource import DataSourceReader, InputPartition

from stem.contracts.history import HistoryFilter, Slice
from stem.core.delivery import DeadFilter
from stem.core.errors import UsageError
from stem.core.settings.setting import did_you_mean
from stem.pipeline import schemas
from stem.pipeline.attempts import ENDINGS
from stem.pipeline.open_store import opened, without_gc
from stem.pipeline.source import batches, canvases
from stem.pipeline.source.read_options import ReadOptions, read_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class StemReader(DataSourceReader):
    """Created where the query is planned, then sent to executors. Never defines pushFilters: see `session`."""

    def __init__(self, options: Mapping[str, str], schema: "StructType") -> None:
        self.options = read_options(options)
        self.schema = checked(schema, self.options.table)

    def partitions(self) -> list[InputPartition]:
        with opened(self.options) as store:
            where = self.options.where(store.upkeep.now())
            match self.options.table:
                case "dead_letters" | "heartbeats" | "schedules" | "canvases":
                    return [InputPartition(where)]
                case "tasks":
                    pieces = store.history.slices("tasks", where, count=self.options.partitions)
                case table:
                    pieces = store.history.slices("events", of_table(table, where), count=self.options.partitions)
            return [InputPartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read(self.options, self.schema, partition)


def read(options: ReadOptions, schema: "StructType", partition: InputPartition) -> "Iterator[pa.RecordBatch]":
    """The rows of one partition: a slice, or a whole small table. Spark passes None if there are no partitions."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if partition.value is None:
        return
    arrow = to_arrow_schema(schema, timezone="UTC")
    with opened(options) as store, without_gc():
        match partition.value, options.table:
            case Slice() as piece, table:
                yield from batches.of_slice(store, piece, table, arrow)
            case HistoryFilter() as where, "dead_letters":
                chosen = DeadFilter(queue=where.queue, name=where.name, since=where.since, until=where.until)
                yield from batches.of_dead_letters(store, chosen, arrow)
            case _, "schedules":
                yield batches.of_schedules(store, arrow)
            case _, "canvases":
                yield from canvases.of_canvases(store, arrow)
            case _:
                yield from batches.of_heartbeats(store, arrow)


def of_table(table: str, where: HistoryFilter) -> HistoryFilter:
    """Restrict the log to the events that the table is made of."""
    return msgspec.structs.replace(where, kinds=ENDINGS) if table == "attempts" else where


def checked(schema: "StructType", table: str) -> "StructType":
    """Check that the table has these columns with these types. Raises UsageError."""
    known = schemas.types(schemas.SHAPES[table])
    known |= {alias: known[name] for alias, name in schemas.ALIASES.get(table, {}).items()}
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if field.name not in known:
            names = {name: name for name in known}
            raise UsageError(
                f"{table} has no column {field.name!r}; the columns are {', '.join(known)}{did_you_mean(field.name, names)}"
            )
        if kind != known[field.name]:
            raise UsageError(
                f"{table}.{field.name} is a {known[field.name]} and cannot be read as {kind}; "
                "read it as it is, and cast it afterwards."
            )
    return schema
