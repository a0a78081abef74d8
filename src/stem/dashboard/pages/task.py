"""One task: its record, arguments, result, error and lineage; its events are a part that is loaded afterwards."""

from typing import Any

from stem.core.envelope import check_id
from stem.core.errors import TaskNotFound
from stem.core.text.escaping import plain_json
from stem.dashboard.handling import PageRequest
from stem.observe.signatures import why_unsigned
from stem.observe.steps import steps
from stem.observe.task import TaskView, task, timeline


def task_page(ask: PageRequest) -> dict[str, Any]:
    found = _task(ask)
    return {
        "title": found.record.name,
        "found": found,
        "record": found.record,
        "steps": steps(ask.desk.stem.store_connection, found.record),
        "meta": found.record.meta,
        "edited": plain_json(found.arguments) if found.arguments is not None else "{}",
        "unsigned": why_unsigned(ask.desk.stem.store_connection, found),
    }


def timeline_part(ask: PageRequest) -> dict[str, Any]:
    found = _task(ask)
    return {"title": "Timeline", "timeline": timeline(ask.store, found.record), "record": found.record}


def _task(ask: PageRequest) -> TaskView:
    task_id = ask.path["task_id"]
    check_id(task_id)
    found = task(ask.store, task_id)
    if found is None:
        raise TaskNotFound(f"There is no task {task_id} here; it was never enqueued, or its result has expired.")
    return found
