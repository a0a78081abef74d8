"""Busy time of workers, and their scaling."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import groupby, pairwise

import msgspec

from stem.pipeline.rollups.measure import Measure

MEASURES = (
    Measure("busy_seconds", "total", lambda facts: facts.busy_seconds),
    Measure("scaled_up", "count", lambda facts: facts.move > 0),
    Measure("scaled_down", "count", lambda facts: facts.move < 0),
    Measure("recycled", "count", lambda facts: facts.kind == "worker-recycled"),
)
STEPS = ("worker-started", "worker-scaled", "worker-stopped")


class _StepData(msgspec.Struct):
    concurrency: int | None = None
    to: int | None = None


_decode = msgspec.json.Decoder(_StepData).decode


def capacity(
    steps: Iterable[tuple[str, datetime, str, str]],
    heard_at: Mapping[str, datetime],
    since: datetime,
    until: datetime,
) -> dict[str, float]:
    """Isolate-seconds that each worker had in a period, by its events of STEPS as (worker, at, kind, data). A worker that was
    killed counts until its last activity."""
    ordered = sorted(steps)
    found: dict[str, float] = {}
    for worker, mine in groupby(ordered, key=lambda step: step[0]):
        said = [(at, _isolates(kind, data)) for _, at, kind, data in mine]
        end = max(said[-1][0], heard_at.get(worker, said[-1][0]))
        found[worker] = sum(
            isolates * max(0.0, (min(stop, until) - max(start, since)).total_seconds())
            for (start, isolates), (stop, _) in pairwise([*said, (end, 0)])
        )
    return found


def _isolates(kind: str, data: str) -> int:
    step = _decode(data)
    return 0 if kind == "worker-stopped" else step.concurrency or step.to or 0
