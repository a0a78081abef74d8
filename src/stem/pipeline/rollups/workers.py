"""How busy workers were, and how they were scaled."""

from typing import TYPE_CHECKING

from stem.pipeline.rollups.measure import count, total

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _is(kind: str) -> "Column":
    from pyspark.sql import functions as F

    return F.col("kind") == kind


def move() -> "Column":
    """Of a worker that was scaled: up or down."""
    from pyspark.sql import functions as F

    start, end = (F.get_json_object("data", f"$.{side}").cast("int") for side in ("from", "to"))
    return F.when(_is("worker-scaled"), F.when(end > start, "up").when(end < start, "down"))


def _moved(way: str) -> "Column":
    from pyspark.sql import functions as F

    return F.col("move") == way


MEASURES = (
    total("busy_seconds", of="busy_seconds"),
    count("scaled_up", lambda: _moved("up")),
    count("scaled_down", lambda: _moved("down")),
    count("recycled", lambda: _is("worker-recycled")),
)


def workers(gold: "DataFrame", *by: "str | Column") -> "DataFrame":
    """Busy seconds and moves, for each of `by`."""
    return gold.groupBy(*by).agg(*(measure.merged().alias(measure.name) for measure in MEASURES))


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
        .withColumn("isolates", F.when(_is("worker-stopped"), 0).otherwise(said))
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
