"""The overview: rates, queues, workers, failures, and what needs attention first."""

from typing import Any

from stem.dashboard.handling import PageRequest
from stem.observe.overview import Overview, overview
from stem.observe.rates import RatePoint

RANGES = {"1h": 3600, "6h": 6 * 3600, "24h": 86400, "7d": 7 * 86400}
LEAST_SHARE = 0.4  # of a step that must have passed before it is shown


def overview_page(ask: PageRequest) -> dict[str, Any]:
    chosen = ask.query.get("range", "1h")
    now = ask.store.upkeep.now()
    with ask.desk.revokes() as revokes:
        found = overview(ask.store, revokes, seconds=RANGES.get(chosen, RANGES["1h"]), read=ask.desk.rows.read)
    return {
        "title": "Overview",
        "found": found,
        "ranges": RANGES,
        "chosen": chosen if chosen in RANGES else "1h",
        "charts": {"endings": _endings(found, now), "run": _times(found, "run"), "wait": _times(found, "wait")},
    }


def _endings(found: Overview, now: float) -> dict[str, Any]:
    """The last step is not over: its counts are of the part that has passed, and too short a part is left out."""
    points, step = found.history.points, found.span.step_seconds
    passed = min(step, now - points[-1].at.timestamp()) if points else step
    if passed < step * LEAST_SHARE:
        points, passed = points[:-1], step
    names = ("succeeded", "failed", "retried")
    return {
        "title": "Endings per minute",
        "unit": "",
        "x": _starts(points),
        "series": [
            {"label": name, "tone": name, "y": _per_minute([getattr(point, name) for point in points], step, passed)}
            for name in names
        ],
    }


def _per_minute(counts: list[int], step_seconds: float, last_seconds: float) -> list[float]:
    lengths = [*[step_seconds] * (len(counts) - 1), last_seconds]
    return [round(count * 60 / seconds, 3) for count, seconds in zip(counts, lengths, strict=True)]


def _times(found: Overview, what: str) -> dict[str, Any]:
    points = found.history.points
    shares = ("p50", "p95", "p99") if what == "run" else ("p50", "p95")
    return {
        "title": {"run": "Run time", "wait": "Wait before the first start"}[what],
        "unit": "s",
        "x": _starts(points),
        "series": [
            {"label": share, "tone": share, "y": [getattr(point, f"{what}_{share}") for point in points]}
            for share in shares
        ],
    }


def _starts(points: list[RatePoint]) -> list[int]:
    return [int(point.at.timestamp()) for point in points]
