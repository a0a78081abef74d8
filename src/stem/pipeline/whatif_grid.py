"""Many settings at once: each simulated where there is a core for it, then the ones worth having."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from stem.core.autoscale import Autoscale, check
from stem.core.errors import ConfigError
from stem.pipeline.whatif import Model, Prediction, Trace, simulate

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql import SparkSession

MOST_POINTS = 20_000


class Point(msgspec.Struct, frozen=True):
    """One way to configure the worker, and what would have come of it."""

    config: Autoscale
    told: Prediction


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
    """In the order of the configurations. The trace travels once to each executor, however many points it has there."""
    partitions = max(1, min(len(configs), 2 * _cores(spark)))
    frame = spark.range(0, len(configs), 1, partitions)
    # Neighbours cost alike, so they are dealt out in turn.
    told = frame.mapInArrow(partial(_predict, trace, list(configs), model, partitions), "place int, told string")
    by_place = {row["place"]: msgspec.json.decode(row["told"], type=Prediction) for row in told.collect()}
    return [Point(config, by_place[place]) for place, config in enumerate(configs)]


def front(points: Sequence[Point]) -> list[Point]:
    """Those that no other beats in both cost and wait, the cheapest first."""
    best, kept = inf, []
    for point in sorted(points, key=_order):
        if point.told.p95_wait < best:
            best = point.told.p95_wait
            kept.append(point)
    return kept


def chosen(points: Sequence[Point], p95_wait: float | None) -> Point:
    """The cheapest that keeps to the wait, or if none does the one that comes nearest; without one, the knee of the front:
    where more isolates begin to bring little."""
    if p95_wait is None:
        return _knee(front(points))
    good = [point for point in points if point.told.p95_wait <= p95_wait]
    return min(good, key=_order) if good else min(points, key=lambda point: (point.told.p95_wait, *_order(point)))


def untried(points: Sequence[Point], best: Point) -> list[str]:
    """What could still shorten the wait of the best, as options with bounds: those whose last tried value it has."""
    config, tried = best.config, [point.config for point in points]
    advice = []
    if config.maximum == max(each.maximum for each in tried) and best.told.most_isolates >= config.maximum:
        advice.append(f"--max above {config.maximum}")
    if config.minimum == max(each.minimum for each in tried) and config.minimum < config.maximum:
        advice.append(f"--min above {config.minimum}")
    if config.scale_up_step == max(each.scale_up_step for each in tried) and best.told.moves:
        advice.append(f"--step above {config.scale_up_step}")
    cool_down = config.scale_up_cool_down_seconds
    if cool_down and cool_down == min(each.scale_up_cool_down_seconds for each in tried) and best.told.moves:
        advice.append(f"--cool-down below {cool_down:g}")
    return advice


def _order(point: Point) -> tuple[float, float, int, int]:
    told = point.told
    return (round(told.isolate_hours, 9), told.p95_wait, told.moves, point.config.maximum)


def _knee(line: Sequence[Point]) -> Point:
    """The point that lies farthest below the line from the cheapest to the quickest."""
    first, last = line[0].told, line[-1].told
    wide = (last.isolate_hours - first.isolate_hours) or 1.0
    high = (first.p95_wait - last.p95_wait) or 1.0

    def depth(point: Point) -> float:
        x = (point.told.isolate_hours - first.isolate_hours) / wide
        y = (point.told.p95_wait - last.p95_wait) / high
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
    """The card that lies at this place when a deck of `count` has been dealt to so many hands, one after the other."""
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
