"""The lake against the store's own log, counted by hand."""

from collections import Counter

import pytest
from pyspark.sql import SparkSession

from stem.core.event import Event
from stem.pipeline.lake.lake import Lake
from stem.pipeline.rollups import gold
from stem.pipeline.rollups.throughput import KINDS


def assert_equals_a_recount(spark: SparkSession, lake: Lake, logged: list[Event]) -> None:
    """Counted by hand from the store's own log."""
    kinds = Counter((event.name, event.kind.value) for event in logged)
    kept = lake.events.frame(spark).groupBy("name", "kind").count().collect()
    assert {(row["name"], row["kind"]): row["count"] for row in kept} == kinds
    ended = [event for event in logged if _is_attempt(event)]
    assert sorted(row.offset for row in lake.attempts.frame(spark).collect()) == sorted(e.offset for e in ended)
    minutes = Counter[tuple[object, ...]](
        (_minute(event), event.name, event.worker, event.kind.value) for event in logged
    )
    rows = [row.asDict() for row in gold.over(lake.rollups.frame(spark), *gold.KEYS).collect()]
    counted = Counter[tuple[object, ...]]()
    for row in rows:
        for kind in KINDS:
            counted[row["minute"].isoformat()[:16], row["name"], row["worker"], kind.replace("_", "-")] += (
                row[kind] or 0
            )
    for key in [key for key in minutes if str(key[3]).startswith("worker-")]:
        del minutes[key]
    assert (counted - minutes, minutes - counted) == (Counter(), Counter())  # too many, too few
    ran = [(event.at - event.started_at).total_seconds() for event in ended if event.started_at]
    for column in ("run_seconds", "busy_seconds"):
        assert sum(row[column] or 0 for row in rows) == pytest.approx(sum(ran))
    assert sum(row["runs"] or 0 for row in rows) == len(ran)
    assert sum(row["scaled_up"] or 0 for row in rows) == sum(event.kind == "worker-scaled" for event in logged)


def _is_attempt(event: Event) -> bool:
    ends = event.kind in ("succeeded", "retried", "failed")
    return ends or (event.kind in ("revoked", "requeued") and event.started_at is not None)


def _minute(event: Event) -> str:
    return event.at.isoformat()[:16]
