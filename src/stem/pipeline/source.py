"""`spark.read.format("stem")`: a store's tables, each partition a slice that is read wherever Spark likes."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.datasource import DataSourceReader, InputPartition

from stem.contracts.history import HistoryFilter, Slice
from stem.core.delivery import DeadFilter
from stem.core.errors import UsageError
from stem.core.option import near
from stem.pipeline import batches, shapes
from stem.pipeline.asked import Asked, asked
from stem.pipeline.attempts import ENDINGS
from stem.pipeline.reach import opened, uncollected

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class StemReader(DataSourceReader):
    """Made where the query is planned, then sent to every executor. Never defines pushFilters: see `session`."""

    def __init__(self, options: Mapping[str, str], schema: "StructType") -> None:
        self.asked = asked(options)
        self.schema = checked(schema, self.asked.table)

    def partitions(self) -> list[InputPartition]:
        with opened(self.asked) as store:
            where = self.asked.where(store.upkeep.now())
            match self.asked.table:
                case "dead_letters" | "heartbeats":
                    return [InputPartition(where)]
                case "schedules":  # nobody keeps any yet
                    return []
                case "tasks":
                    pieces = store.history.slices("tasks", where, count=self.asked.partitions)
                case table:
                    pieces = store.history.slices("events", of_table(table, where), count=self.asked.partitions)
            return [InputPartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read(self.asked, self.schema, partition)


def read(asked: Asked, schema: "StructType", partition: InputPartition) -> "Iterator[pa.RecordBatch]":
    """What one partition holds: a slice, or a small table whole. Spark makes a partition of None where there is none."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if partition.value is None:
        return
    arrow = to_arrow_schema(schema, timezone="UTC")
    with opened(asked) as store, uncollected():
        match partition.value, asked.table:
            case Slice() as piece, table:
                yield from batches.of_slice(store, piece, table, arrow)
            case HistoryFilter() as where, "dead_letters":
                chosen = DeadFilter(queue=where.queue, name=where.name, since=where.since, until=where.until)
                yield from batches.of_dead_letters(store, chosen, arrow)
            case _:
                yield from batches.of_heartbeats(store, arrow)


def of_table(table: str, where: HistoryFilter) -> HistoryFilter:
    """Of the log only what the table is made of."""
    return msgspec.structs.replace(where, kinds=ENDINGS) if table == "attempts" else where


def checked(schema: "StructType", table: str) -> "StructType":
    """The columns that are asked for, all of which the table has, of its types. Raises UsageError."""
    known = shapes.types(shapes.SHAPES[table])
    known |= {alias: known[name] for alias, name in shapes.ALIASES.get(table, {}).items()}
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if field.name not in known:
            names = {name: name for name in known}
            raise UsageError(
                f"{table} has no column {field.name!r}; the columns are {', '.join(known)}{near(field.name, names)}"
            )
        if kind != known[field.name]:
            raise UsageError(
                f"{table}.{field.name} is a {known[field.name]} and cannot be read as {kind}; "
                "read it as it is, and cast it afterwards."
            )
    return schema
