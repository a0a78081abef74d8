"""How long first attempts waited, and how long attempts ran."""

from typing import TYPE_CHECKING

from stem.pipeline.rollups.measure import count, greatest, percentile, sketch, total

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def _always() -> "Column":
    from pyspark.sql import functions as F

    return F.lit(True)


MEASURES = (
    count("waits", _always, of="waits"),
    total("wait_seconds", of="wait_seconds"),
    greatest("wait_most"),
    sketch("wait_sketch"),
    count("runs", _always, of="runs"),
    total("run_seconds", of="run_seconds"),
    greatest("run_most"),
    sketch("run_sketch"),
)


def latency(gold: "DataFrame", *by: "str | Column") -> "DataFrame":
    """Percentiles, means and extremes in seconds, for each of `by`; None where nothing ran."""
    sums = gold.groupBy(*by).agg(*(measure.merged().alias(measure.name) for measure in MEASURES))
    return shown(sums)


def shown(sums: "DataFrame") -> "DataFrame":
    """The sketches replaced by what people ask of them."""
    from pyspark.sql import functions as F

    figures = {
        f"{what}_{name}": percentile(f"{what}_sketch", share)
        for what in ("wait", "run")
        for name, share in SHARES.items()
    }
    means = {f"{what}_mean": F.try_divide(f"{what}_seconds", f"{what}s") for what in ("wait", "run")}
    return sums.withColumns({**figures, **means}).drop("wait_sketch", "run_sketch")
