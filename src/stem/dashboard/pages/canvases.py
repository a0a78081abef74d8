"""Canvases, and one of them as a tree."""

from typing import Any

from stem.core.envelope import check_id
from stem.core.errors import TaskNotFound
from stem.dashboard.handling import PageRequest
from stem.observe.canvases import MOST_COUNTED, MOST_LINES, canvas, canvases

PAGE = 25
MOST_FAILURES = 10


def canvases_page(ask: PageRequest) -> dict[str, Any]:
    found = canvases(ask.desk.stem, limit=PAGE, cursor=ask.text("cursor"))
    return {"title": "Canvases", "found": found, "is_first": ask.text("cursor") is None, "most_counted": MOST_COUNTED}


def canvas_page(ask: PageRequest) -> dict[str, Any]:
    canvas_id = check_id(ask.path["canvas_id"])
    try:
        found = canvas(ask.desk.stem, canvas_id)
    except TaskNotFound as error:
        raise TaskNotFound(
            f"There is no canvas {canvas_id} here; it was never submitted, it is a task, or its result has expired."
        ) from error
    return {
        "title": found.status.name or "Canvas",
        "found": found,
        "failures": found.status.failures[:MOST_FAILURES],
        "failed": sum(count for state, count in found.counts if state.value == "failed"),
        "most_lines": MOST_LINES,
    }
