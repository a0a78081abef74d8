"""A question to the lake in SQL, answered with rows or with a sentence about the question."""

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stem.core.errors import UsageError
from stem.pipeline.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POINTER = re.compile(r";?\s*(?:'[A-Z]\w+|line \d+ pos \d+|\n).*", re.DOTALL)
_READS = re.compile(r"\s*(?:select|with|values|from|table|describe|desc|show|explain|\()", re.IGNORECASE)


def ask(lake: Lake, spark: "SparkSession", query: str, *, limit: int) -> tuple[list[str], list[list[Any]]]:
    """Columns, and up to one row more than the limit, by which to tell that there are more. Raises UsageError."""
    from pyspark.errors import PySparkException

    if not _READS.match(query):
        raise UsageError('A lake is only asked here; write a question like "select count(*) from events".')
    lake.show(spark)
    try:
        answer = spark.sql(query).limit(limit + 1)
        rows = answer.collect()
    except PySparkException as error:
        raise UsageError(f"Spark cannot answer this ({_brief(error)}); correct the query.") from error
    return answer.columns, [[_plain(value) for value in row] for row in rows]


def _brief(error: Exception) -> str:
    """Spark's first sentence, without its code and without the plan behind it."""
    text = str(error).strip()
    text = re.sub(r"^\[[A-Z_.]+\]\s*", "", text)
    return re.sub(r"\s*SQLSTATE: \w+", "", _POINTER.sub("", text)).strip().rstrip(".")[:300]


def _plain(value: Any) -> Any:
    """Moments with their zone, which Spark leaves off."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC).isoformat()
    return value
