"""Merge the small files of a day, by column, on the executors."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from stem.pipeline.lake.delta import ROWS_AT_ONCE, DataFile, DayFile, Table, in_portions
from stem.pipeline.lake.scan import Piece, pieces, scanned
from stem.pipeline.rollups import gold
from stem.pipeline.schemas import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_MERGED = "path string, size bigint, rows bigint, date string"


def merge_files(
    spark: "SparkSession", table: Table, files: Sequence[DataFile]
) -> tuple[list[DataFile], list[DataFile]]:
    """Merge files. Returns those that were merged, and the new files; a file left over by itself stays."""
    in_order = sorted(files, key=lambda file: file.path)  # in the order of batches, and so of time
    work = [piece for piece in pieces(table, in_order) if len(piece.paths) > 1]
    old = {path for piece in work for path in piece.paths}
    answers = scanned(spark, work, partial(_join, files[0].date))
    return [file for file in files if file.path in old], _files(answers)


def merge_rollups(spark: "SparkSession", table: Table, files: Sequence[DataFile]) -> list[DataFile]:
    """Merge files of rollups into one file with one row per key."""
    whole = Piece(table, tuple(file.path for file in files))
    return _files(scanned(spark, [whole], partial(_sum, files[0].date)))


def _files(answers: "Sequence[tuple[Piece, pa.Table]]") -> list[DataFile]:
    return [DataFile(**row) for _, answer in answers for row in answer.to_pylist()]


def _join(day: str, piece: Piece) -> "pa.Table":
    return _written(piece.table, day, in_portions(piece.batches(), ROWS_AT_ONCE))


def _sum(day: str, piece: Piece) -> "pa.Table":
    return _written(piece.table, day, map(gold.merged, in_portions(piece.batches(), None)))


def _written(table: Table, day: str, portions: "Iterable[pa.Table]") -> "pa.Table":
    """Runs on an executor. The vacuum removes what a failed try leaves."""
    import pyarrow as pa

    output = DayFile(table, day)
    for rows in portions:
        output.write(rows)
    file = output.close()
    row = {"path": file.path, "size": file.size, "rows": file.rows, "date": file.date}
    return pa.Table.from_pylist([row], arrow_schema(_MERGED))
