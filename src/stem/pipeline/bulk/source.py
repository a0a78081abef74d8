"""Read the rows of a bulk from a file or folder, a Delta table, `table:NAME`, or `sql:SELECT …`."""

import os
from typing import TYPE_CHECKING

from stem.core.errors import InvalidArguments

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "csv", "json", "orc", "delta")
_ENDINGS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".orc": "orc"}


def rows(spark: "SparkSession", source: str, format: str | None = None) -> "DataFrame":
    """Open the rows as a DataFrame. Raises InvalidArguments."""
    from pyspark.errors import PySparkException

    kind, _, rest = source.partition(":")
    try:
        if kind == "table":
            return spark.table(rest)
        if kind == "sql":
            return spark.sql(rest)
        return _file(spark, source, format or _format(source))
    except PySparkException as error:
        reason = str(error).strip().partition("\n")[0]
        raise InvalidArguments(f"{source} cannot be read ({reason}); name rows that Spark can read.") from error


def is_counted_quickly(source: str, format: str | None) -> bool:
    """Whether the files store the number of rows."""
    kind = source.partition(":")[0]
    return kind not in ("table", "sql") and (format or _format(source)) in ("parquet", "delta", "orc")


def _file(spark: "SparkSession", source: str, format: str) -> "DataFrame":
    match format:
        case "delta":
            from deltalake import DeltaTable

            return spark.read.option("basePath", source).parquet(*DeltaTable(source).file_uris())
        case "csv":
            return spark.read.option("header", True).option("inferSchema", True).csv(source)
        case _:
            return spark.read.format(format).load(source)


def _format(source: str) -> str:
    if os.path.isdir(os.path.join(source, "_delta_log")):
        return "delta"
    ending = os.path.splitext(source.rstrip("/"))[1].lower()
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    if os.path.isdir(source):
        return "parquet"
    raise InvalidArguments(f"The format of {source} cannot be seen from its name; name one of {', '.join(FORMATS)}.")
