"""Simulate many settings on the executors, and choose the best."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from stem.core.decisions.autoscale import Autoscale, check
from stem.core.errors import ConfigError
from stem.pipeline.whatif.simulate import Model, Prediction, Trace, simulate

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql import SparkSession

MOST_POINTS = 20_000


class Point(msgspec.Struct, frozen=True):
    """One configuration of the worker, and its predicted result."""

    config: Autoscale
    prediction: Prediction = msgspec.field(name="told")


def grid(base: Autoscale, **values: Sequence[float]) -> list[Autoscale]:
    """Every combination in which the minimum is not above the maximum. Raises ConfigError."""
    names = list(values)
    made = []
    for chosen in product(*values.values()):
        config = msgspec.structs.replace(base, enabled=True, **dict(zip(names, chosen, strict=True)))
        if config.minimum <= config.maximum:
            made.append(check(config))
    if not made:
        raise ConfigError("In no combination is --min at or below --max; widen one of them.")
    if len(made) > MOST_POINTS:
        raise ConfigError(f"These are {len(made):,} combinations and {MOST_POINTS:,} are the most; narrow a range.")
    return made


def predicted(spark: "SparkSession", trace: Trace, configs: Sequence[Autoscale], model: Model) -> list[Point]:
    """Predictions in the order of the configurations. The trace is sent once to each executor."""
    partitions = max(1, min(len(configs), 2 * _cores(spark)))
    frame = spark.range(0, len(configs), 1, partitions)
    # Neighbours cost alike, so they are distributed in turn.
    told = frame.mapInArrow(partial(_predict, trace, list(configs), model, partitions), "place int, told string")
    by_place = {row["place"]: msgspec.json.decode(row["told"], type=Prediction) for row in told.collect()}
    return [Point(config, by_place[place]) for place, config in enumerate(configs)]


def front(points: Sequence[Point]) -> list[Point]:
    """The points that no other beats in both cost and wait, the cheapest first."""
    best, kept = inf, []
    for point in sorted(points, key=_order):
        if point.prediction.p95_wait < best:
            best = point.prediction.p95_wait
            kept.append(point)
    return kept


def chosen(points: Sequence[Point], p95_wait: float | None) -> Point:
    """The cheapest point within the wait, or the nearest if there is none; without a wait, the knee of the front, where more
    isolates begin to help little."""
    if p95_wait is None:
        return _knee(front(points))
    good = [point for point in points if point.prediction.p95_wait <= p95_wait]
    return min(good, key=_order) if good else min(points, key=lambda point: (point.prediction.p95_wait, *_order(point)))


def untried(points: Sequence[Point], best: Point) -> list[str]:
    """Options that could still shorten the wait of the best point: those of which it has the last tried value."""
    config, tried = best.config, [point.config for point in points]
    advice = []
    if config.maximum == max(each.maximum for each in tried) and best.prediction.most_isolates >= config.maximum:
        advice.append(f"--max above {config.maximum}")
    if config.minimum == max(each.minimum for each in tried) and config.minimum < config.maximum:
        advice.append(f"--min above {config.minimum}")
    if config.scale_up_step == max(each.scale_up_step for each in tried) and best.prediction.moves:
        advice.append(f"--step above {config.scale_up_step}")
    cool_down = config.scale_up_cool_down_seconds
    if cool_down and cool_down == min(each.scale_up_cool_down_seconds for each in tried) and best.prediction.moves:
        advice.append(f"--cool-down below {cool_down:g}")
    return advice


def _order(point: Point) -> tuple[float, float, int, int]:
    told = point.prediction
    return (round(told.isolate_hours, 9), told.p95_wait, told.moves, point.config.maximum)


def _knee(line: Sequence[Point]) -> Point:
    """The point farthest below the line from the cheapest to the fastest."""
    first, last = line[0].prediction, line[-1].prediction
    wide = (last.isolate_hours - first.isolate_hours) or 1.0
    high = (first.p95_wait - last.p95_wait) or 1.0

    def depth(point: Point) -> float:
        x = (point.prediction.isolate_hours - first.isolate_hours) / wide
        y = (point.prediction.p95_wait - last.p95_wait) / high
        return x + y

    return min(line, key=depth)


def _predict(
    trace: Trace,
    configs: list[Autoscale],
    model: Model,
    partitions: int,
    batches: "Iterable[pa.RecordBatch]",
) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    count = len(configs)
    for batch in batches:
        places = [_dealt(place, count, partitions) for place in batch.column("id").to_pylist()]
        told = [msgspec.json.encode(simulate(trace, configs[place], model)).decode() for place in places]
        yield pa.RecordBatch.from_arrays(
            [pa.array(places, pa.int32()), pa.array(told, pa.string())], names=["place", "told"]
        )


def _dealt(number: int, count: int, hands: int) -> int:
    """The number at this place when `count` numbers are dealt to `hands` partitions in turn."""
    whole, more = divmod(count, hands)
    for hand in range(hands):
        size = whole + (hand < more)
        if number < size:
            return hand + number * hands
        number -= size
    raise IndexError(number)


def _cores(spark: Any) -> int:
    from pyspark.sql.utils import is_remote

    return 2 if is_remote() else int(spark.sparkContext.defaultParallelism)
