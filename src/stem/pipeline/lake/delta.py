"""Delta tables: executors write the files, the driver commits them, once per batch."""

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from stem.core.errors import LakeRefused
from stem.pipeline.lake.position import numbers_of, text_of
from stem.pipeline.lake.storage import delta_options, file_system, is_remote, options_for, reason
from stem.pipeline.schemas import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pafs
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

Derive = Callable[["pa.Table"], "Sequence[pa.Table]"]

DATE = "date"  # every table is partitioned by day
_WRITTEN = "output int, path string, size bigint, rows bigint, date string"
ROWS_AT_ONCE = 100_000  # that a partition derives and writes as a row group
_BATCH_DIGITS = 10

# Readers list the files of a version and then open them, so versions must last a while; but the log of a stream that commits
# every second must not grow for ever.
_CONFIGURATION = {
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
    "delta.checkpointInterval": "50",
}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file, by its path under the table."""

    path: str
    size: int
    rows: int
    date: str


@dataclass(frozen=True, slots=True)
class Output:
    """Where rows go: a table, and the column that gives the day. Other columns than the table's are left out."""

    table: "Table"
    day: str


class Table:
    """`shape` is the columns as a Spark schema, without the day. `options` are for the object store; None takes those of this
    process, and they are sent to executors. `create` creates the table."""

    def __init__(self, root: str, shape: str, options: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.shape = shape
        self.options = options_for(root) if options is None else options
        self._opened: DeltaTable | None = None

    def __repr__(self) -> str:
        return f"Table({self.root!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return Table, (self.root, self.shape, self.options)  # the open log stays in this process

    def file_system(self) -> "tuple[pafs.FileSystem, str]":
        """The table's file system, and its path there."""
        return file_system(self.root, self.options)

    def exists(self) -> bool:
        from deltalake import DeltaTable

        with self._readable():
            return DeltaTable.is_deltatable(self.root, storage_options=self._storage)

    def create(self) -> None:
        """Create the table if it does not exist; else add missing columns."""
        from deltalake import DeltaTable, Schema

        with self._readable():
            if not self.exists():
                schema = Schema.from_arrow(arrow_schema(f"{self.shape}, {DATE} date"))
                DeltaTable.create(
                    self.root,
                    schema,
                    mode="ignore",
                    partition_by=[DATE],
                    configuration=dict(_CONFIGURATION),
                    storage_options=self._storage,
                )
            self._add_columns()

    @property
    def id(self) -> str:
        """Assigned when the table was created."""
        return str(self._log().metadata().id)

    @property
    def created_at(self) -> datetime:
        return datetime.fromtimestamp((self._log().metadata().created_time or 0) / 1000, UTC)

    def last_batch(self, app: str) -> int | None:
        """The number of the last batch that this app has committed."""
        return self._log().transaction_version(app)

    def position(self, app: str) -> str | None:
        """The position stored with the last batch of this app."""
        log = self._log()
        return text_of(lambda name: log.transaction_version(f"{app}:{name}"))

    def commit(self, files: Sequence[DataFile], *, app: str, batch: int, position: str | None = None) -> bool:
        """Add the files, the batch's number and its position, atomically. False if the batch was there already; its files
        are then deleted. Of two processes that commit a batch at the same time, one is refused. Raises LakeRefused."""
        last = self.last_batch(app)
        if last is not None and last >= batch:
            self.drop(files)
            return False
        numbers = {} if position is None else {f"{app}:{name}": value for name, value in numbers_of(position).items()}
        self._write([_addition(file) for file in files], transactions={app: batch, **numbers})
        return True

    def replace(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        """Replace files by others with the same rows, or equivalent ones, in one commit."""
        from deltalake.transaction import RemoveAction

        now = int(time.time() * 1000)
        removals = [RemoveAction(file.path, False, now, file.size, {DATE: file.date}) for file in old]
        self._write([*(_addition(file, is_new=False) for file in new), *removals])

    def files(self) -> list[DataFile]:
        """The files of the newest version, in no order."""
        import pyarrow as pa

        listed = pa.table(self._log().get_add_actions(flatten=True)).to_pylist()
        return [
            DataFile(each["path"], each["size_bytes"], each["num_records"] or 0, str(each[f"partition.{DATE}"]))
            for each in listed
        ]

    def files_of(self, batch: int) -> list[DataFile]:
        """The files of a batch, until compaction merges them."""
        prefix = _prefix(batch)
        return [file for file in self.files() if file.path.rpartition("/")[2].startswith(prefix)]

    def frame(self, spark: "SparkSession", files: Iterable[DataFile] | None = None) -> "DataFrame":
        """The rows of these files; None means all."""
        schema = f"{self.shape}, {DATE} date"
        chosen = list(self.files() if files is None else files)
        if not chosen:
            return spark.createDataFrame([], schema)
        if is_remote(self.root):  # Spark lacks the libraries to read there
            return spark.range(0, len(chosen), 1, len(chosen)).mapInArrow(partial(_read_files, self, chosen), schema)
        paths = [f"{self.root}/{file.path}" for file in chosen]
        return spark.read.schema(schema).option("basePath", self.root).parquet(*paths)

    def put(self, rows: list[dict[str, Any]], *, day: str, batch: int) -> list[DataFile]:
        """Write a few rows into files, not yet committed. Missing columns are null."""
        import pyarrow as pa

        writer = _Writer(Output(self, day), _prefix(batch))
        writer.add(pa.Table.from_pylist(rows, arrow_schema(self.shape)))
        return writer.close()

    def delete_before(self, day: str) -> int:
        """Remove whole days from the table; their files stay until the vacuum. Returns the number of files."""
        from deltalake.transaction import RemoveAction

        old = [file for file in self.files() if file.date < day]
        if old:
            now = int(time.time() * 1000)
            self._write([RemoveAction(file.path, True, now, file.size, {DATE: file.date}) for file in old])
        return len(old)

    def vacuum(self, *, hours: int) -> int:
        """Delete files that no version of the last hours uses: replaced, removed, or written by a failed try."""
        with self._readable():
            removed = self._log().vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
        return len(removed)

    def drop(self, files: Iterable[DataFile]) -> None:
        """Delete files that were never committed."""
        fs, root = self.file_system()
        for file in files:
            fs.delete_file(f"{root}/{file.path}")

    def _log(self) -> "DeltaTable":
        from deltalake import DeltaTable

        with self._readable():
            if self._opened is None:
                self._opened = DeltaTable(self.root, storage_options=self._storage)
            else:
                self._opened.update_incremental()
            return self._opened

    def _write(self, actions: "list[object]", *, transactions: Mapping[str, int] | None = None) -> None:
        from deltalake import CommitProperties, Transaction

        log = self._log()
        versions = [Transaction(app, version) for app, version in transactions.items()] if transactions else None
        with self._readable():
            log.create_write_transaction(
                actions,  # type: ignore[arg-type]
                "append",
                log.schema(),
                partition_by=[DATE],
                commit_properties=CommitProperties(app_transactions=versions),
            )

    def _add_columns(self) -> None:
        from deltalake import Schema

        log = self._log()
        known = {field.name for field in log.schema().fields}
        wanted = Schema.from_arrow(arrow_schema(self.shape)).fields
        if fresh := [field for field in wanted if field.name not in known]:
            log.alter.add_columns(fresh)

    @property
    def _storage(self) -> dict[str, str] | None:
        return delta_options(self.root, self.options)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Turn the library's errors about a damaged or forbidden table into one sentence."""
        from deltalake.exceptions import DeltaError

        try:
            yield
        except (DeltaError, OSError) as error:
            raise LakeRefused(
                f"The table {self.root} cannot be used ({reason(error, self.options)}); check that the lake is whole and "
                "that you may write there."
            ) from error


def write(
    frame: "DataFrame",
    outputs: Sequence[Output],
    *,
    derive: "Derive | None" = None,
    batch: int | None = None,
    rows_at_once: int | None = ROWS_AT_ONCE,
) -> list[list[DataFile]]:
    """Write the files of all outputs in one pass over the frame, on the executors. Returns one list of files per output.

    `derive` makes the rows of each output from at most `rows_at_once` rows of the frame (None: from all of a partition);
    without it they are the frame's. Files belong to no table until they are committed; the vacuum removes what a failed or
    repeated try leaves."""
    job = partial(_write_partition, list(outputs), derive or _unchanged, rows_at_once, _prefix(batch))
    written: list[list[DataFile]] = [[] for _ in outputs]
    for row in frame.mapInArrow(job, _WRITTEN).collect():
        written[row.output].append(DataFile(row.path, row.size, row.rows, row.date))
    return written


def _read_files(table: Table, files: list[DataFile], numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Runs on an executor: the rows of the files with these numbers, with the day of each file."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    fs, root = table.file_system()
    for batch in numbers:
        for file in (files[number] for number in batch.column("id").to_pylist()):
            data = ds.dataset(
                [f"{root}/{file.path}"], schema=arrow_schema(table.shape), format="parquet", filesystem=fs
            )
            for rows in data.to_batches(batch_size=ROWS_AT_ONCE, batch_readahead=1, use_threads=False):
                day = pa.scalar(date.fromisoformat(file.date), pa.date32())
                yield rows.append_column(DATE, pa.repeat(day, len(rows)))


def _write_partition(
    outputs: list[Output],
    derive: "Derive",
    rows_at_once: int | None,
    prefix: str,
    batches: "Iterator[pa.RecordBatch]",
) -> "Iterator[pa.RecordBatch]":
    """Runs on an executor. `prefix` begins the name of each file."""
    import pyarrow as pa

    writers = [_Writer(output, prefix) for output in outputs]
    for rows in in_portions(batches, rows_at_once):
        for writer, derived in zip(writers, derive(rows), strict=True):
            writer.add(derived)
    files = [(number, file) for number, writer in enumerate(writers) for file in writer.close()]
    rows_written = [{"output": n, "path": f.path, "size": f.size, "rows": f.rows, "date": f.date} for n, f in files]
    yield pa.RecordBatch.from_pylist(rows_written, arrow_schema(_WRITTEN))


def in_portions(batches: "Iterable[pa.RecordBatch]", rows_at_once: int | None) -> "Iterator[pa.Table]":
    """Tables of `rows_at_once` rows, the last one fewer; None means one table."""
    import pyarrow as pa

    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        while rows_at_once is not None and sum(map(len, pending)) >= rows_at_once:
            rows = pa.Table.from_batches(pending)
            yield rows[:rows_at_once]
            pending = rows[rows_at_once:].to_batches()
    if pending:
        yield pa.Table.from_batches(pending)


def _unchanged(rows: "pa.Table") -> "Sequence[pa.Table]":
    return (rows,)


class _Writer:
    """Writes the rows of one output and one partition, one file per day."""

    def __init__(self, output: Output, prefix: str) -> None:
        self._output = output
        self._prefix = prefix
        self._schema = arrow_schema(output.table.shape)
        self._open: dict[str, DayFile] = {}

    def add(self, rows: "pa.Table") -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        days = rows[self._output.day].cast(pa.date32())
        rows = rows.select(self._schema.names).cast(self._schema)
        found = pc.unique(days).to_pylist()
        for day in found:
            mine = rows if len(found) == 1 else rows.filter(pc.equal(days, pa.scalar(day, pa.date32())))
            self._file(str(day)).write(mine)

    def _file(self, day: str) -> "DayFile":
        if day not in self._open:
            self._open[day] = DayFile(self._output.table, day, self._prefix)
        return self._open[day]

    def close(self) -> list[DataFile]:
        return [file.close() for file in self._open.values()]


class DayFile:
    """A file being written, not yet committed."""

    def __init__(self, table: Table, day: str, prefix: str = "") -> None:
        import pyarrow.parquet as pq

        fs, root = table.file_system()
        if not is_remote(table.root):  # object stores have no folders
            fs.create_dir(f"{root}/{DATE}={day}", recursive=True)
        self._day = day
        self._path = f"{DATE}={day}/{prefix}{uuid.uuid4().hex}.parquet"
        self._rows = 0
        self._sink = fs.open_output_stream(f"{root}/{self._path}")
        self._writer = pq.ParquetWriter(self._sink, arrow_schema(table.shape), compression="zstd")

    def write(self, rows: "pa.Table") -> None:
        """Write row groups of limited size."""
        self._writer.write_table(rows, row_group_size=ROWS_AT_ONCE)
        self._rows += len(rows)

    def close(self) -> DataFile:
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        return DataFile(self._path, size, self._rows, self._day)


def _prefix(batch: int | None) -> str:
    return "" if batch is None else f"{batch:0{_BATCH_DIGITS}d}-"


def _addition(file: DataFile, *, is_new: bool = True) -> object:
    from deltalake.transaction import AddAction

    stats = json.dumps({"numRecords": file.rows})
    return AddAction(file.path, file.size, {DATE: file.date}, int(time.time() * 1000), is_new, stats)
