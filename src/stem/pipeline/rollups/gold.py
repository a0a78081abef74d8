"""The gold table: partial sums of each minute by task, queue, worker and tenant, merged whenever they are read."""

from typing import TYPE_CHECKING

from stem.pipeline import silver
from stem.pipeline.rollups import failures, latency, queues, throughput, workers
from stem.pipeline.rollups.measure import SKETCH_SIZE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEYS = ("minute", "name", "queue", "worker", "tenant")
ROLLUPS = (throughput, latency, failures, workers, queues)  # to add one: a file with MEASURES, and a name here
MEASURES = tuple(measure for rollup in ROLLUPS for measure in rollup.MEASURES)
SHAPE = ", ".join(
    [
        "minute timestamp, name string, queue string, worker string, tenant string",
        *(f"{measure.name} {measure.kind}" for measure in MEASURES),
    ]
)


def partials(events: "DataFrame") -> "DataFrame":
    """Of one batch. What comes late makes rows for minutes that have rows already; readers merge them."""
    return counts(events).groupBy(*KEYS).agg(*(measure.partial().alias(measure.name) for measure in MEASURES))


def merged(gold: "DataFrame") -> "DataFrame":
    """One row a minute and key, whatever batches it was counted in."""
    return gold.groupBy(*KEYS).agg(*(measure.merged().alias(measure.name) for measure in MEASURES))


def shown(gold: "DataFrame") -> "DataFrame":
    """Merged, with percentiles in place of sketches: what people ask."""
    return latency.shown(merged(gold))


def counts(events: "DataFrame") -> "DataFrame":
    """What there was of each kind. Few sums over many rows, of which the many measures are made: one aggregate of all
    measures at once would be too long a method for the JVM to compile."""
    from pyspark.sql import functions as F

    sums = [F.count("kind").alias("events"), F.sum("busy_seconds").alias("busy_seconds")]
    for what in ("wait", "run"):
        seconds = f"{what}_seconds"
        sketch = F.when(F.count(seconds) > 0, F.kll_sketch_agg_double(seconds, SKETCH_SIZE))
        sums += [F.count(seconds).alias(f"{what}s"), F.sum(seconds).alias(seconds)]
        sums += [F.max(seconds).alias(f"{what}_most"), sketch.alias(f"{what}_sketch")]
    return facts(events).groupBy(*KEYS, "kind", "outcome", "move").agg(*sums)


def facts(events: "DataFrame") -> "DataFrame":
    """The events with what they are counted by. Seconds of work count in the minutes in which they were worked."""
    from pyspark.sql import functions as F

    ended = silver.ended(events).withColumn("minute", _minute("at"))
    in_last = F.least("run_seconds", (F.unix_micros("at") - F.unix_micros("minute")) / 1e6)
    last = ended.select(
        *KEYS,
        "kind",
        "outcome",
        workers.move().alias("move"),
        *(F.when(F.col(silver.ENDED), F.col(name)).alias(name) for name in ("wait_seconds", "run_seconds")),
        F.when(F.col(silver.ENDED), in_last).alias("busy_seconds"),
    )
    return last.unionByName(_earlier(ended), allowMissingColumns=True)


def _earlier(ended: "DataFrame") -> "DataFrame":
    """For an attempt that began in an earlier minute: a row for each such minute, which counts as work and nothing else."""
    from pyspark.sql import functions as F

    a_minute = F.expr("interval 1 minute")
    horizon = F.col("minute") - F.expr(
        "interval 7 days"
    )  # a start that no clock could mean may not make a million rows
    began = _minute(F.greatest("started_at", horizon))
    spent = F.unix_micros(F.col("earlier") + a_minute) - F.unix_micros(F.greatest("started_at", "earlier"))
    return (
        ended.where(F.col(silver.ENDED) & (began < F.col("minute")))
        .withColumn("earlier", F.explode(F.sequence(began, F.col("minute") - a_minute, a_minute)))
        .select(F.col("earlier").alias("minute"), *KEYS[1:], (spent / 1e6).alias("busy_seconds"))
    )


def _minute(moment: "Column | str") -> "Column":
    from pyspark.sql import functions as F

    return F.timestamp_micros(F.floor(F.unix_micros(moment) / 60_000_000) * 60_000_000)
