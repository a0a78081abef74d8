"""How busy workers were, and how they were scaled."""

from typing import TYPE_CHECKING

from stem.pipeline.rollups.measure import Measure

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MEASURES = (
    Measure("busy_seconds", "total", lambda facts: facts.busy_seconds),
    Measure("scaled_up", "count", lambda facts: facts.move > 0),
    Measure("scaled_down", "count", lambda facts: facts.move < 0),
    Measure("recycled", "count", lambda facts: facts.kind == "worker-recycled"),
)


def capacity(events: "DataFrame", since: "Column", until: "Column") -> "DataFrame":
    """How many seconds of isolates each worker had between two moments, by what it said of itself: its start, each
    change of its isolates, its stop. One that was killed said nothing; it counts until it was last heard of in the log."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    by_worker = Window.partitionBy("worker").orderBy("at", "offset")
    said = F.coalesce(F.get_json_object("data", "$.concurrency"), F.get_json_object("data", "$.to")).cast("int")
    last_heard = events.where("worker is not null").groupBy("worker").agg(F.max("at").alias("last_at"))
    steps = (
        events.where(F.col("kind").isin("worker-started", "worker-scaled", "worker-stopped"))
        .withColumn("isolates", F.when(F.col("kind") == "worker-stopped", 0).otherwise(said))
        .withColumn("next_at", F.lead("at").over(by_worker))
        .join(last_heard, "worker")
    )
    start, end = F.greatest("at", since), F.least(F.coalesce("next_at", "last_at"), until)
    seconds = (F.unix_micros(end) - F.unix_micros(start)) / 1e6
    return (
        steps.withColumn("seconds", F.when(seconds > 0, seconds * F.col("isolates")).otherwise(0.0))
        .groupBy("worker")
        .agg(F.sum("seconds").alias("capacity_seconds"))
    )
