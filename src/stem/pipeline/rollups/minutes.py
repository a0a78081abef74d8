"""Read the rollups of a period without Spark, for dashboards and commands."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from stem.pipeline.lake.lake import Lake
from stem.pipeline.lake.scan import Piece
from stem.pipeline.rollups import gold, latency


def minutes(lake: Lake, since: datetime, until: datetime, *, by: Sequence[str] = gold.KEYS) -> list[dict[str, Any]]:
    """One row per value of `by`, for minutes from `since` to before `until`, with percentiles in seconds."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    day = since.astimezone(UTC).date().isoformat()
    paths = tuple(file.path for file in lake.rollups.files() if file.date >= day)
    if not paths:
        return []
    kind = pa.timestamp("us", tz="UTC")
    within = (ds.field("minute") >= pa.scalar(since, kind)) & (ds.field("minute") < pa.scalar(until, kind))
    rows = Piece(lake.rollups, paths).read([*gold.KEYS, *(measure.name for measure in gold.MEASURES)], within)
    found: list[dict[str, Any]] = latency.shown(gold.merged(rows, by)).to_pylist()
    return found
