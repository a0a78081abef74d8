"""How many tasks came, ran and ended."""

from typing import TYPE_CHECKING

from stem.pipeline.rollups.measure import Measure, count

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# By kind of event, as columns are named. A requeue is counted by what it means for the attempt: lost or interrupted.
KINDS = (
    "enqueued", "started", "succeeded", "retried", "failed", "revoked", "expired", "requeued", "throttled",
    "dead_lettered", "replayed",
)  # fmt: skip
OUTCOMES = ("lost", "interrupted")


def _kind(name: str) -> Measure:
    def is_it() -> "Column":
        from pyspark.sql import functions as F

        return F.col("kind") == name.replace("_", "-")

    return count(name, is_it)


def _outcome(name: str) -> Measure:
    def is_it() -> "Column":
        from pyspark.sql import functions as F

        return F.col("outcome") == name

    return count(name, is_it)


MEASURES = (*map(_kind, KINDS), *map(_outcome, OUTCOMES))


def throughput(gold: "DataFrame", *by: "str | Column") -> "DataFrame":
    """Counts of everything that happened, for each of `by`."""
    return gold.groupBy(*by).agg(*(measure.merged().alias(measure.name) for measure in MEASURES))
