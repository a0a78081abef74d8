"""Wait of first attempts and run time of attempts."""

from typing import TYPE_CHECKING

from stem.pipeline.rollups.measure import Measure, percentiles, sizes

if TYPE_CHECKING:
    import pyarrow as pa

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
WHAT = ("wait", "run")

MEASURES = (
    Measure("wait_seconds", "total", lambda facts: facts.wait_seconds),
    Measure("wait_most", "most", lambda facts: facts.wait_seconds),
    Measure("wait_histogram", "histogram", lambda facts: facts.wait_seconds),
    Measure("run_seconds", "total", lambda facts: facts.run_seconds),
    Measure("run_most", "most", lambda facts: facts.run_seconds),
    Measure("run_histogram", "histogram", lambda facts: facts.run_seconds),
)
SHOWN = ", ".join(f"{what}s bigint, " + ", ".join(f"{what}_{name} double" for name in SHARES) for what in WHAT)


def shown(rows: "pa.Table") -> "pa.Table":
    """Replace the histograms by counts and percentiles in seconds."""
    for what in WHAT:
        maps = rows[f"{what}_histogram"].combine_chunks()
        rows = rows.drop_columns(f"{what}_histogram").append_column(f"{what}s", sizes(maps))
        for name, share in SHARES.items():
            rows = rows.append_column(f"{what}_{name}", percentiles(maps, share))
    return rows
