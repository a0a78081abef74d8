"""How many tasks waited in each queue: looked at when a batch is written, for no event tells it."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stem.core.delivery import Depth
from stem.pipeline.rollups.measure import Measure

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _sampled(name: str, merge: str) -> Measure:
    """No event gives it: a sample is a partial row of its own."""

    def partial() -> "Column":
        from pyspark.sql import functions as F

        return F.lit(None).cast("bigint")

    def merged() -> "Column":
        from pyspark.sql import functions as F

        return F.sum(name) if merge == "sum" else F.max(name)

    return Measure(name, "bigint", partial, merged)


MEASURES = (
    _sampled("samples", "sum"),
    _sampled("ready", "sum"),
    _sampled("ready_most", "max"),
    _sampled("delayed", "sum"),
    _sampled("running", "sum"),
    _sampled("dead_most", "max"),
)


def sample(depths: Mapping[str, Depth], at: datetime) -> list[dict[str, Any]]:
    """One look at the queues, as partial rows."""
    minute = at.replace(second=0, microsecond=0)
    return [
        {
            "minute": minute,
            "queue": queue,
            "samples": 1,
            "ready": depth.ready,
            "ready_most": depth.ready,
            "delayed": depth.delayed,
            "running": depth.running,
            "dead_most": depth.dead,
        }
        for queue, depth in depths.items()
    ]


def queues(gold: "DataFrame", *by: "str | Column") -> "DataFrame":
    """The mean and the most of what waited, for each of `by`."""
    from pyspark.sql import functions as F

    sums = gold.groupBy(*by).agg(*(measure.merged().alias(measure.name) for measure in MEASURES))
    means = {name: F.try_divide(name, "samples") for name in ("ready", "delayed", "running")}
    return sums.where("samples > 0").withColumns(means)
