"""Depth of the queues, sampled when a batch is written, because no event has it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from stem.core.delivery import Depth
from stem.pipeline.rollups.measure import Measure

MEASURES = (
    Measure("samples", "count"),
    Measure("ready", "count"),
    Measure("ready_most", "most"),
    Measure("delayed", "count"),
    Measure("running", "count"),
    Measure("dead_most", "most"),
)


def sample(depths: Mapping[str, Depth], at: datetime) -> list[dict[str, Any]]:
    """Partial rows of one sample."""
    minute = at.replace(second=0, microsecond=0)
    return [
        {
            "minute": minute,
            "queue": queue,
            "samples": 1,
            "ready": depth.ready,
            "ready_most": float(depth.ready),
            "delayed": depth.delayed,
            "running": depth.running,
            "dead_most": float(depth.dead),
        }
        for queue, depth in depths.items()
    ]
