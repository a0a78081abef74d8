"""A question to the lake in SQL, answered with rows or with a sentence about the question."""

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stem.core.errors import UsageError
from stem.pipeline.fallen import in_a_sentence
from stem.pipeline.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READS = re.compile(r"\s*(?:select|with|values|from|table|describe|desc|show|explain|\()", re.IGNORECASE)


def ask(lake: Lake, spark: "SparkSession", query: str, *, limit: int) -> tuple[list[str], list[list[Any]]]:
    """Columns, and up to one row more than the limit, by which to tell that there are more. Raises UsageError,
    LakeRefused, SparkUnavailable."""
    if not _READS.match(query):
        raise UsageError('A lake is only asked here; write a question like "select count(*) from events".')
    with in_a_sentence():
        lake.show(spark)
        answer = spark.sql(query).limit(limit + 1)
        rows = answer.collect()
    return answer.columns, [[_plain(value) for value in row] for row in rows]


def _plain(value: Any) -> Any:
    """Moments with their zone, which Spark leaves off."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC).isoformat()
    return value
