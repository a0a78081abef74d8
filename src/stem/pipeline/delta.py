"""One Delta table: its files are written where the rows are, and enter the log in one commit, once for each batch."""

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from stem.core.errors import LakeRefused
from stem.pipeline.shapes import names

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pafs
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

DATE = "date"  # every table is partitioned by day
_WRITTEN = "output int, path string, size bigint, rows bigint, date string"
_ROWS_A_GROUP = 100_000
_BATCH_DIGITS = 10

# A reader lists the files of a version and then opens them, so a version may not vanish under it; nor may the log of a
# stream that commits every second grow for ever.
_CONFIGURATION = {
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
    "delta.checkpointInterval": "50",
}


@dataclass(frozen=True, slots=True)
class File:
    """A data file, by its path under the table."""

    path: str
    size: int
    rows: int
    date: str


@dataclass(frozen=True, slots=True)
class Output:
    """What part of a frame's rows and columns becomes rows of a table: the table's columns, those rows for which `where`
    is set, on the day that `day` gives."""

    table: "Table"
    day: str
    where: str | None = None


class Table:
    """Not yet there until `create`. Shape: columns as Spark writes them, without the day."""

    def __init__(self, root: str, shape: str) -> None:
        self.root = root
        self.shape = shape
        self._opened: DeltaTable | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return Table, (self.root, self.shape)  # the open log stays with its process

    def exists(self) -> bool:
        from deltalake import DeltaTable

        with _readable(self.root):
            return DeltaTable.is_deltatable(self.root)

    def create(self) -> None:
        """Leaves a table that is there, but adds the columns that it lacks."""
        from deltalake import DeltaTable, Schema

        with _readable(self.root):
            if not DeltaTable.is_deltatable(self.root):
                schema = Schema.from_arrow(arrow_schema(f"{self.shape}, {DATE} date"))
                DeltaTable.create(
                    self.root, schema, mode="ignore", partition_by=[DATE], configuration=dict(_CONFIGURATION)
                )
            self._add_columns()

    def last_batch(self, app: str) -> int | None:
        """Of those that this app has committed."""
        return self._log().transaction_version(app)

    def commit(self, files: Sequence[File], *, app: str, batch: int) -> bool:
        """All files and the batch's number, or nothing. False: the batch was there already, and the files are dropped."""
        last = self.last_batch(app)
        if last is not None and last >= batch:
            self.drop(files)
            return False
        self._write([_addition(file) for file in files], transaction=(app, batch))
        return True

    def replace(self, old: Sequence[File], new: Sequence[File]) -> None:
        """The same rows, or rows that mean the same, in other files; in one commit."""
        from deltalake.transaction import RemoveAction

        now = int(time.time() * 1000)
        removals = [RemoveAction(file.path, False, now, file.size, {DATE: file.date}) for file in old]
        self._write([*(_addition(file, is_new=False) for file in new), *removals])

    def files(self) -> list[File]:
        """Those of the newest version, in no order."""
        import pyarrow as pa

        listed = pa.table(self._log().get_add_actions(flatten=True)).to_pylist()
        return [
            File(each["path"], each["size_bytes"], each["num_records"] or 0, str(each[f"partition.{DATE}"]))
            for each in listed
        ]

    def files_of(self, batch: int) -> list[File]:
        """What a batch brought, as long as compaction has left it apart."""
        prefix = _prefix(batch)
        return [file for file in self.files() if file.path.rpartition("/")[2].startswith(prefix)]

    def frame(self, spark: "SparkSession", files: Iterable[File] | None = None) -> "DataFrame":
        """The rows of these files; None: of all, as they are now."""
        schema = f"{self.shape}, {DATE} date"
        paths = [f"{self.root}/{file.path}" for file in (self.files() if files is None else files)]
        if not paths:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).option("basePath", self.root).parquet(*paths)

    def delete_before(self, day: str) -> int:
        """Drop whole days from the table; their files stay until the vacuum. Returns how many files."""
        from deltalake.transaction import RemoveAction

        old = [file for file in self.files() if file.date < day]
        if old:
            now = int(time.time() * 1000)
            self._write([RemoveAction(file.path, True, now, file.size, {DATE: file.date}) for file in old])
        return len(old)

    def vacuum(self, *, hours: int) -> int:
        """Remove files that no version of the last hours knows: those replaced, deleted, or written by a try that died."""
        with _readable(self.root):
            removed = self._log().vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
        return len(removed)

    def drop(self, files: Iterable[File]) -> None:
        """Files that no commit knows."""
        fs, root = file_system(self.root)
        for file in files:
            fs.delete_file(f"{root}/{file.path}")

    def _log(self) -> "DeltaTable":
        from deltalake import DeltaTable

        with _readable(self.root):
            if self._opened is None:
                self._opened = DeltaTable(self.root)
            else:
                self._opened.update_incremental()
            return self._opened

    def _write(self, actions: "list[object]", *, transaction: tuple[str, int] | None = None) -> None:
        from deltalake import CommitProperties, Transaction

        log = self._log()
        marks = [Transaction(*transaction)] if transaction else None
        with _readable(self.root):
            log.create_write_transaction(
                actions,  # type: ignore[arg-type]
                "append",
                log.schema(),
                partition_by=[DATE],
                commit_properties=CommitProperties(app_transactions=marks),
            )

    def _add_columns(self) -> None:
        from deltalake import Schema

        log = self._log()
        known = {field.name for field in log.schema().fields}
        wanted = Schema.from_arrow(arrow_schema(self.shape)).fields
        if fresh := [field for field in wanted if field.name not in known]:
            log.alter.add_columns(fresh)


def write(frame: "DataFrame", outputs: Sequence[Output], *, batch: int | None = None) -> list[list[File]]:
    """One pass over the frame writes the files of all outputs, each on the machine that has the rows; a list an output.

    They belong to no table until they are committed: what a failed or repeated try leaves is for the vacuum."""
    columns = list(dict.fromkeys(name for output in outputs for name in _needed(output)))
    job = partial(_write_partition, list(outputs), "" if batch is None else _prefix(batch))
    rows = frame.select(*columns).mapInArrow(job, _WRITTEN).collect()
    written: list[list[File]] = [[] for _ in outputs]
    for row in rows:
        written[row.output].append(File(row.path, row.size, row.rows, row.date))
    return written


def arrow_schema(shape: str) -> "pa.Schema":
    import pyarrow as pa

    kinds: Mapping[str, Callable[[], pa.DataType]] = {
        "string": pa.string,
        "int": pa.int32,
        "bigint": pa.int64,
        "double": pa.float64,
        "binary": pa.binary,
        "date": pa.date32,
        "timestamp": lambda: pa.timestamp("us", tz="UTC"),
    }
    columns = (column.split() for column in shape.split(", "))
    return pa.schema([(name, kinds[kind]()) for name, kind in columns])


def file_system(uri: str) -> "tuple[pafs.FileSystem, str]":
    import pyarrow.fs as pafs

    if "://" in uri:
        return pafs.FileSystem.from_uri(uri)
    return pafs.LocalFileSystem(), uri


def _write_partition(
    outputs: list[Output], prefix: str, batches: "Iterator[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """Runs in an executor's Python; `prefix` begins each file's name."""
    import pyarrow as pa

    writers = [_Writer(output, prefix) for output in outputs]
    for batch in batches:
        for writer in writers:
            writer.add(batch)
    files = [(number, file) for number, writer in enumerate(writers) for file in writer.close()]
    rows = [{"output": n, "path": f.path, "size": f.size, "rows": f.rows, "date": f.date} for n, f in files]
    yield pa.RecordBatch.from_pylist(rows, arrow_schema(_WRITTEN))


class _Writer:
    """The files of one output and one partition: one a day."""

    def __init__(self, output: Output, prefix: str) -> None:
        self._output = output
        self._prefix = prefix
        self._schema = arrow_schema(output.table.shape)
        self._fs, self._root = file_system(output.table.root)
        self._waiting: dict[str, list[pa.Table]] = {}
        self._open: dict[str, _DayFile] = {}

    def add(self, batch: "pa.RecordBatch") -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = pa.Table.from_batches([batch])
        if self._output.where is not None:
            rows = rows.filter(rows[self._output.where])
        days = rows[self._output.day].cast(pa.date32())
        rows = rows.select(self._schema.names).cast(self._schema)
        for day in pc.unique(days).to_pylist():
            self._put(str(day), rows.filter(pc.equal(days, pa.scalar(day, pa.date32()))))

    def _put(self, day: str, rows: "pa.Table") -> None:
        waiting = self._waiting.setdefault(day, [])
        waiting.append(rows)
        if sum(map(len, waiting)) >= _ROWS_A_GROUP:
            self._flush(day)

    def _flush(self, day: str) -> None:
        import pyarrow as pa

        if day not in self._open:
            self._open[day] = _DayFile(
                self._fs, self._root, f"{DATE}={day}/{self._prefix}{uuid.uuid4().hex}.parquet", self._schema
            )
        self._open[day].write(pa.concat_tables(self._waiting.pop(day)))

    def close(self) -> list[File]:
        for day in list(self._waiting):
            self._flush(day)
        return [file.close(day) for day, file in self._open.items()]


class _DayFile:
    def __init__(self, fs: "pafs.FileSystem", root: str, path: str, schema: "pa.Schema") -> None:
        import pyarrow.parquet as pq

        fs.create_dir(f"{root}/{path.rpartition('/')[0]}", recursive=True)
        self._path = path
        self._rows = 0
        self._sink = fs.open_output_stream(f"{root}/{path}")
        # Spark keeps binary statistics it never asks for; a sketch as the least or greatest one is only weight.
        bounded = [field.name for field in schema if str(field.type) != "binary"]
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd", write_statistics=bounded)

    def write(self, rows: "pa.Table") -> None:
        self._writer.write_table(rows, row_group_size=_ROWS_A_GROUP)
        self._rows += len(rows)

    def close(self, day: str) -> File:
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        return File(self._path, size, self._rows, day)


def _needed(output: Output) -> list[str]:
    return [*names(output.table.shape), output.day, *([] if output.where is None else [output.where])]


def _prefix(batch: int) -> str:
    return f"{batch:0{_BATCH_DIGITS}d}-"


def _addition(file: File, *, is_new: bool = True) -> object:
    from deltalake.transaction import AddAction

    stats = json.dumps({"numRecords": file.rows})
    return AddAction(file.path, file.size, {DATE: file.date}, int(time.time() * 1000), is_new, stats)


@contextmanager
def _readable(root: str) -> Iterator[None]:
    """What the library says of a damaged or forbidden table, as one sentence."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise LakeRefused(
            f"The table {root} cannot be used ({reason}); check that the lake is whole and that you may write there."
        ) from error
