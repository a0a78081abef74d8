"""Schedules: in words, with next runs and history."""

from typing import Any

from stem.dashboard.handling import PageRequest
from stem.observe.schedules import schedules
from stem.observe.workers import workers


def schedules_page(ask: PageRequest) -> dict[str, Any]:
    beats = [worker for worker in workers(ask.store) if worker.kind == "scheduler"]
    return {"title": "Schedules", "found": schedules(ask.store), "schedulers": beats}
