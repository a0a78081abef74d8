"""What failed, why, and what it cost."""

from typing import TYPE_CHECKING, Any

from stem.pipeline.rollups.facts import Facts
from stem.pipeline.rollups.measure import Measure

if TYPE_CHECKING:
    import numpy as np
    from pyspark.sql import DataFrame


def _in_vain(facts: Facts) -> "np.ndarray[Any, Any]":
    import numpy as np

    return np.where(facts.outcome == "succeeded", np.nan, facts.run_seconds)


MEASURES = (Measure("wasted_seconds", "total", _in_vain),)


def failures(attempts: "DataFrame") -> "DataFrame":
    """One row a task and fingerprint: how often, since when, until when, and the latest message."""
    from pyspark.sql import functions as F

    return (
        attempts.where(F.col("fingerprint").isNotNull())
        .groupBy("name", "fingerprint")
        .agg(
            F.count("*").alias("attempts"),
            F.count_if(F.col("outcome") == "failed").alias("failed"),
            F.max("error_type").alias("error_type"),
            F.max_by("error_message", "finished_at").alias("message"),
            F.max_by("task_id", "finished_at").alias("task_id"),
            F.min("finished_at").alias("first_at"),
            F.max("finished_at").alias("last_at"),
            F.coalesce(F.sum("run_seconds"), F.lit(0.0)).alias("run_seconds"),
        )
    )
