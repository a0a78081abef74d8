"""Read files of the lake on the executors; each piece of work returns a small Arrow table to the driver."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from stem.pipeline.lake.delta import ROWS_AT_ONCE, DataFile, Table
from stem.pipeline.schemas import arrow_schema
from stem.pipeline.spark.spark_errors import translated

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyspark.sql import SparkSession

_PIECE_BYTES = 32 * 1024 * 1024
_DEFAULT_SLOTS = 8


@dataclass(frozen=True, slots=True)
class Piece:
    """Some files of a table."""

    table: Table
    paths: tuple[str, ...]

    def read(self, columns: Sequence[str], where: Any) -> "pa.Table":
        """`where` is a pyarrow expression. A column that a file lacks is null."""
        return self._dataset().to_table(list(columns), filter=where)

    def batches(self) -> "Iterator[pa.RecordBatch]":
        """All rows, file after file, with few of them in memory at once. In one thread: each executor has other work for its
        cores, and passing memory between threads costs half as much again."""
        batches: Iterator[pa.RecordBatch] = self._dataset().to_batches(
            batch_size=ROWS_AT_ONCE, batch_readahead=1, fragment_readahead=1, use_threads=False
        )
        return batches

    def _dataset(self) -> "ds.Dataset":
        import pyarrow.dataset as ds

        fs, root = self.table.file_system()
        paths = [f"{root}/{path}" for path in self.paths]
        return ds.dataset(paths, schema=arrow_schema(self.table.shape), format="parquet", filesystem=fs)


def pieces(table: Table, files: Sequence[DataFile]) -> list[Piece]:
    """Groups of files of about the same size; a large file is a group of its own."""
    found: list[list[str]] = []
    room = 0
    for file in files:
        if file.size > room or not found:
            found.append([])
            room = _PIECE_BYTES
        found[-1].append(file.path)
        room -= file.size
    return [Piece(table, tuple(paths)) for paths in found]


def scanned(
    spark: "SparkSession", work: Sequence[Piece], job: "Callable[[Piece], pa.Table]"
) -> "list[tuple[Piece, pa.Table]]":
    """Run the job for each piece; answers come in no order. The plan is always the same short one: Spark would take longer to
    plan and compile most queries than executors take to run them."""
    import pyarrow as pa

    if not work:
        return []
    rows = spark.range(0, len(work), 1, min(len(work), _slots(spark))).mapInArrow(
        partial(_do, list(work), job), "piece int, answer binary"
    )
    with translated():
        answers = rows.collect()
    return [(work[row.piece], pa.ipc.open_stream(bytes(row.answer)).read_all()) for row in answers]


def _slots(spark: "SparkSession") -> int:
    """How many pieces can run at once. Spark Connect does not say."""
    context = getattr(spark, "_sc", None)
    return _DEFAULT_SLOTS if context is None else max(1, context.defaultParallelism)


def _do(
    work: list[Piece], job: "Callable[[Piece], pa.Table]", batches: "Iterator[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    schema = arrow_schema("piece int, answer binary")
    for batch in batches:
        for number in batch.column("id").to_pylist():
            answer = job(work[number])
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, answer.schema) as stream:
                stream.write_table(answer)
            yield pa.RecordBatch.from_pylist([{"piece": number, "answer": sink.getvalue().to_pybytes()}], schema)
