"""Fewer files of many, of the same day: read and written in columns where there is room, never as rows of Spark's."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from stem.pipeline.delta import ROWS_AT_ONCE, DayFile, File, Table, arrow_schema, in_portions
from stem.pipeline.rollups import gold
from stem.pipeline.scan import Piece, pieces, scanned

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_MERGED = "path string, size bigint, rows bigint, date string"


def joined(spark: "SparkSession", table: Table, files: Sequence[File]) -> tuple[list[File], list[File]]:
    """Which of these give way, and the new files that have their rows. One that is left over by itself stays."""
    in_order = sorted(files, key=lambda file: file.path)  # of batches, and so of time
    work = [piece for piece in pieces(table, in_order) if len(piece.paths) > 1]
    old = {path for piece in work for path in piece.paths}
    answers = scanned(spark, work, partial(_join, files[0].date))
    return [file for file in files if file.path in old], _told(answers)


def summed(spark: "SparkSession", table: Table, files: Sequence[File]) -> list[File]:
    """The one file that says what these of the rollups do, a row a key: all rows of a minute must meet."""
    whole = Piece(table, tuple(file.path for file in files))
    return _told(scanned(spark, [whole], partial(_sum, files[0].date)))


def _told(answers: "Sequence[tuple[Piece, pa.Table]]") -> list[File]:
    return [File(**row) for _, answer in answers for row in answer.to_pylist()]


def _join(day: str, piece: Piece) -> "pa.Table":
    return _written(piece.table, day, in_portions(piece.batches(), ROWS_AT_ONCE))


def _sum(day: str, piece: Piece) -> "pa.Table":
    return _written(piece.table, day, map(gold.merged, in_portions(piece.batches(), None)))


def _written(table: Table, day: str, portions: "Iterable[pa.Table]") -> "pa.Table":
    """Runs in an executor's Python. What a try that fails leaves is for the vacuum."""
    import pyarrow as pa

    output = DayFile(table, day)
    for rows in portions:
        output.write(rows)
    file = output.close()
    told = {"path": file.path, "size": file.size, "rows": file.rows, "date": file.date}
    return pa.Table.from_pylist([told], arrow_schema(_MERGED))
