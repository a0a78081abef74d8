"""`df.write.format("stem")` and `df.writeStream`: one task per row, all in one transaction.

Each try at a partition stages its rows under its own name; the driver promotes the tries that Spark reports as successful.
So a write that fails leaves nothing, and a row that Spark tried twice becomes one task.
"""

import secrets
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from stem.contracts.staging import Part
from stem.core.errors import InvalidArguments, UsageError
from stem.pipeline.lake.delta import DataFile
from stem.pipeline.open_store import opened, without_gc
from stem.pipeline.sink import rejects
from stem.pipeline.sink.compose import Composer
from stem.pipeline.sink.variants import refuse_nested
from stem.pipeline.sink.write_options import WriteOptions, check_against_app, write_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# Properties of the query and the micro-batch that a Spark task belongs to.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The result of one partition."""

    job: str
    part: Part
    rows: int
    bad: int = 0
    first_bad: str = ""
    rejects: list[DataFile] = field(default_factory=list)


class StemWriter(DataSourceArrowWriter):
    """Created where the write is planned, then sent to executors."""

    def __init__(self, options: Mapping[str, str], schema: "StructType", overwrite: bool) -> None:
        if overwrite:
            raise UsageError('Tasks can only be added; write with .mode("append").')
        write = checked_options(options, schema)
        self._write = msgspec.structs.replace(write, job=write.job or f"spark-{uuid.uuid4()}")

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        return stage(self._write, self._job, _partition(), iterator)

    def commit(self, messages: "list[WriterCommitMessage | None]") -> None:
        promote(self._write, self._job, _written(messages))

    def abort(self, messages: "list[WriterCommitMessage | None]") -> None:
        discard(self._write, self._job, _written(messages))

    @property
    def _job(self) -> str:
        return str(self._write.job)


class StemStreamWriter(DataSourceStreamArrowWriter):
    """One job per micro-batch, named after query and batch: a batch that is repeated after a restart adds nothing."""

    def __init__(self, options: Mapping[str, str], schema: "StructType", overwrite: bool) -> None:
        if overwrite:
            raise UsageError('Tasks can only be added; write with .outputMode("append").')
        self._write = checked_options(options, schema)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        context = _context()
        query = self._write.job or context.getLocalProperty(_QUERY)
        return stage(self._write, f"{query}/{context.getLocalProperty(_BATCH)}", context.partitionId(), iterator)

    def commit(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: ARG002 - Spark's name
        if written := _written(messages):
            promote(self._write, written[0].job, written)

    def abort(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: ARG002 - Spark's name
        if written := _written(messages):  # else the job is unknown: the next try or retention removes what is left
            discard(self._write, written[0].job, written)


def checked_options(options: Mapping[str, str], schema: "StructType") -> WriteOptions:
    """Check the options, the task and the connections before Spark starts the write. Raises StemError."""
    write = write_options(options, schema.names)
    refuse_nested(schema)
    check_against_app(write)
    from stem.client.stores import connect

    connect(write.settings.broker_url, write.settings).upkeep.close()
    if write.rejects is not None:
        rejects.create(write.rejects)
    return write


def stage(write: WriteOptions, job: str, partition: int, batches: "Iterator[pa.RecordBatch]") -> Written:
    """Stage one try at a partition."""
    name = f"{partition}-{secrets.token_hex(8)}"
    rows = staged = bad = 0
    first_bad = ""
    aside = None if write.rejects is None else rejects.Rejects(write.rejects, job, partition)
    with opened(write) as store, without_gc():
        if store.staging.promoted(job) is not None:
            deque(batches, maxlen=0)  # Spark waits until they are consumed
            return Written(job, Part(name, 0), 0)
        composer = Composer(write, job, partition)
        for batch in batches:
            calls, unfit = composer.compose(batch)
            if calls is not None:
                store.staging.stage(job, name, calls)
                staged += len(calls.ids)
            if unfit and not first_bad:
                first_bad = f"row {unfit[0].row:,} of partition {partition}: {unfit[0].reason}"
            if aside is not None:
                aside.add(unfit)
            rows, bad = rows + len(batch), bad + len(unfit)
    return Written(job, Part(name, staged), rows, bad, first_bad, [] if aside is None else aside.close())


def promote(write: WriteOptions, job: str, written: Sequence[Written]) -> None:
    """Turn the staged rows into tasks, then commit the rejected ones. With onBadRow=fail, raise InvalidArguments for bad rows
    and promote nothing."""
    bad = sum(each.bad for each in written)
    if bad and write.on_bad_row == "fail":
        rows = sum(each.rows for each in written)
        first = next(each.first_bad for each in written if each.bad)
        raise InvalidArguments(
            f"{bad:,} of {rows:,} rows cannot become tasks, and none did; the first is {first} "
            "Correct them, or set them aside with onBadRow=reject."
        )
    with opened(write) as store:
        store.staging.promote(job, [each.part for each in written])
    if write.rejects is not None:
        rejects.commit(write.rejects, job, [file for each in written for file in each.rejects])


def discard(write: WriteOptions, job: str, written: Sequence[Written]) -> None:
    with opened(write) as store:
        is_promoted = store.staging.promoted(job) is not None
        store.staging.discard(job)
    if write.rejects is not None and not is_promoted:
        rejects.drop(write.rejects, [file for each in written for file in each.rejects])


def _written(messages: "Sequence[WriterCommitMessage | None]") -> list[Written]:
    return [message for message in messages if isinstance(message, Written)]


def _partition() -> int:
    return int(_context().partitionId())


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise UsageError("Only Spark can call this, in a task of its own.")
    return context
