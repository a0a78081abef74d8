"""The overview: rates, queues, workers, failures, and what needs attention first."""

from typing import Any

from stem.dashboard.handling import PageRequest
from stem.observe.overview import Overview, overview
from stem.observe.rates import RatePoint

RANGES = {"1h": 3600, "6h": 6 * 3600, "24h": 86400, "7d": 7 * 86400}


def overview_page(ask: PageRequest) -> dict[str, Any]:
    chosen = ask.query.get("range", "1h")
    with ask.desk.revokes() as revokes:
        found = overview(ask.store, revokes, seconds=RANGES.get(chosen, RANGES["1h"]))
    return {
        "title": "Overview",
        "found": found,
        "ranges": RANGES,
        "chosen": chosen if chosen in RANGES else "1h",
        "charts": {"endings": _endings(found), "run": _times(found, "run"), "wait": _times(found, "wait")},
    }


def _endings(found: Overview) -> dict[str, Any]:
    points, per_minute = found.history.points, 60 / found.span.step_seconds
    names = ("succeeded", "failed", "retried")
    return {
        "title": "Endings per minute",
        "unit": "",
        "x": _starts(points),
        "series": [
            {"label": name, "tone": name, "y": [round(getattr(point, name) * per_minute, 3) for point in points]}
            for name in names
        ],
    }


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
