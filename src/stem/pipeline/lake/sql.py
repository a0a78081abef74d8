"""Run a SQL query on the lake; an error in the query becomes one sentence."""

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stem.core.errors import UsageError
from stem.pipeline.lake.lake import Lake
from stem.pipeline.spark.spark_errors import translated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READS = re.compile(r"\s*(?:select|with|values|from|table|describe|desc|show|explain|\()", re.IGNORECASE)


def run_query(lake: Lake, spark: "SparkSession", query: str, *, limit: int) -> tuple[list[str], list[list[Any]]]:
    """Return the columns, and one row more than the limit if there are more. Raises UsageError, LakeRefused,
    SparkUnavailable."""
    if not _READS.match(query):
        raise UsageError('Only queries are allowed here; write one like "select count(*) from events".')
    with translated():
        lake.create_views(spark)
        answer = spark.sql(query).limit(limit + 1)
        rows = answer.collect()
    return answer.columns, [[_plain(value) for value in row] for row in rows]


def _plain(value: Any) -> Any:
    """Add the time zone, which Spark leaves off."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC).isoformat()
    return value
