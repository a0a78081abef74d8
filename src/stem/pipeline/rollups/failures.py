"""Failures by task and fingerprint, and the run time they wasted."""

from typing import TYPE_CHECKING, Any

from stem.pipeline.rollups.facts import Facts
from stem.pipeline.rollups.measure import Measure

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


def _wasted(facts: Facts) -> "np.ndarray[Any, Any]":
    import numpy as np

    return np.where(facts.outcome == "succeeded", np.nan, facts.run_seconds)


MEASURES = (Measure("wasted_seconds", "total", _wasted),)
COLUMNS = (
    "name", "fingerprint", "outcome", "error_type", "error_message", "task_id", "finished_at", "run_seconds",
)  # fmt: skip
_KEYS = ["name", "fingerprint"]


def failures(attempts: "pa.Table") -> "pa.Table":
    """One row per task and fingerprint of these attempts, with the newest as its sample."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for_good = pc.cast(pc.equal(attempts["outcome"], "failed"), pa.int64())
    ones = pa.array([1] * len(attempts), pa.int64())
    counted = attempts.append_column("attempts", ones).append_column("failed", for_good)
    return merged(counted.append_column("first_at", attempts["finished_at"]).rename_columns(
        ["last_at" if name == "finished_at" else name for name in [*attempts.column_names, "attempts", "failed", "first_at"]]
    ))  # fmt: skip


def merged(rows: "pa.Table") -> "pa.Table":
    """Merge rows of `failures`."""
    newest = rows.sort_by([("last_at", "descending")])
    grouped = newest.group_by(_KEYS, use_threads=False).aggregate(
        [
            ("attempts", "sum"),
            ("failed", "sum"),
            ("run_seconds", "sum"),
            ("first_at", "min"),
            ("last_at", "max"),
            *((name, "first") for name in ("error_type", "error_message", "task_id")),
        ]
    )
    return grouped.rename_columns(
        [name.rpartition("_")[0] if name not in _KEYS else name for name in grouped.column_names]
    )
