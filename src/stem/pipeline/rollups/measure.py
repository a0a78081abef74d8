"""A column of the gold table: how a batch's counts give it, and how two partial values become one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

SKETCH_SIZE = 800  # within 1.5 % at the 99th percentile; the default of 200 is 6 % off


@dataclass(frozen=True, slots=True)
class Measure:
    """`partial` aggregates the rows of `gold.counts`, `merged` the partial rows; in any number of steps and any order."""

    name: str
    kind: str
    partial: "Callable[[], Column]"
    merged: "Callable[[], Column]"


def count(name: str, when: "Callable[[], Column]", of: str = "events") -> Measure:
    """How many there were where the condition holds."""

    def partial() -> "Column":
        from pyspark.sql import functions as F

        return F.sum(F.when(when(), F.col(of)).otherwise(0))

    return Measure(name, "bigint", partial, lambda: _sum(name))


def total(name: str, of: str, when: "Callable[[], Column] | None" = None) -> Measure:
    """The sum of another total, where the condition holds."""

    def partial() -> "Column":
        from pyspark.sql import functions as F

        return F.sum(F.when(F.lit(True) if when is None else when(), F.col(of)).otherwise(0))

    return Measure(name, "double", partial, lambda: _sum(name))


def greatest(name: str) -> Measure:
    """None if there was none."""

    def merged() -> "Column":
        from pyspark.sql import functions as F

        return F.max(name)

    return Measure(name, "double", merged, merged)


def sketch(name: str) -> Measure:
    """Of all values, for their percentiles. None, and no empty sketch, where there was no value: Spark cannot read those."""

    def merged() -> "Column":
        from pyspark.sql import functions as F

        return F.when(F.count(name) > 0, F.kll_merge_agg_double(name, SKETCH_SIZE))

    return Measure(name, "binary", merged, merged)


def percentile(name: str, share: float) -> "Column":
    """Of a sketch; None where there is none."""
    from pyspark.sql import functions as F

    return F.kll_sketch_get_quantile_double(name, F.lit(share))


def _sum(name: str) -> "Column":
    from pyspark.sql import functions as F

    return F.sum(name)
