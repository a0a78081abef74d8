"""How busy workers were, and how they were scaled."""

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


class _Told(msgspec.Struct):
    concurrency: int | None = None
    to: int | None = None


_told = msgspec.json.Decoder(_Told).decode


def capacity(
    steps: Iterable[tuple[str, datetime, str, str]],
    heard_at: Mapping[str, datetime],
    since: datetime,
    until: datetime,
) -> dict[str, float]:
    """How many seconds of isolates each worker had between two moments, by what it said of itself: events of STEPS as
    (worker, at, kind, data). One that was killed said nothing; it counts until it was last heard of."""
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
    told = _told(data)
    return 0 if kind == "worker-stopped" else told.concurrency or told.to or 0
