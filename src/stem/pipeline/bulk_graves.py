"""A failed item of a bulk as the call that it would have been: what an ordinary worker can run when it is replayed."""

from typing import Any

import msgspec

from stem.client.app import Stem
from stem.client.compose import compose, draft
from stem.client.options import planned
from stem.core.delivery import Fallen
from stem.core.envelope import Envelope
from stem.core.errors import InvalidArguments
from stem.core.outcome import Dead
from stem.core.record import TaskError
from stem.pipeline.bulk_id import task_id
from stem.pipeline.bulk_words import Job


def fallen(app: Stem, job: Job, row: dict[str, Any]) -> Fallen | None:
    """None for an item that cancelled itself."""
    if row["reason"] == "cancelled":
        return None
    error = TaskError(row["error_type"], row["error_message"], row["error_stack"] or "")
    note = {"bulk": job.bulk, "item": row["item"]}
    seconds = (row["finished_at"] - row["started_at"]).total_seconds()
    return Fallen(
        _envelope(app, job, row, note),
        Dead(row["reason"], error, note),
        attempt=max(0, row["attempts"] - 1),
        run_seconds=max(0.0, seconds),
    )


def _envelope(app: Stem, job: Job, row: dict[str, Any], note: dict[str, Any]) -> Envelope:
    definition = app.tasks[job.task].definition
    plan = planned(definition.plan, {"id": task_id(job.bulk, row["item"]), "meta": note})
    empty = draft(job.task, plan, is_fair=app.settings.fair_share)
    try:
        return compose(app.link, empty, plan, msgspec.json.decode(row["args"]), None).envelope
    except InvalidArguments:  # too large to be sent at all: the letter says so, and the results have the arguments
        return compose(app.link, empty, plan, {}, None).envelope
