"""Turn a failed item of a bulk into a dead letter that an ordinary worker can run when it is replayed."""

from typing import Any

import msgspec

from stem.client.app import Stem
from stem.client.send.compose import compose, envelope_template
from stem.client.task.options import planned
from stem.core.delivery import DeadCall
from stem.core.envelope import Envelope
from stem.core.errors import InvalidArguments
from stem.core.outcome import Dead
from stem.core.record import TaskError
from stem.pipeline.bulk.item_id import task_id
from stem.pipeline.bulk.protocol import Job


def dead_letter_of(app: Stem, job: Job, row: dict[str, Any]) -> DeadCall | None:
    """None for an item that cancelled itself."""
    if row["reason"] == "cancelled":
        return None
    error = TaskError(row["error_type"], row["error_message"], row["error_stack"] or "")
    note = {"bulk": job.bulk, "item": row["item"]}
    seconds = (row["finished_at"] - row["started_at"]).total_seconds()
    return DeadCall(
        _envelope(app, job, row, note),
        Dead(row["reason"], error, note),
        attempt=max(0, row["attempts"] - 1),
        run_seconds=max(0.0, seconds),
    )


def _envelope(app: Stem, job: Job, row: dict[str, Any], note: dict[str, Any]) -> Envelope:
    definition = app.tasks[job.task].definition
    plan = planned(definition.plan, {"id": task_id(job.bulk, row["item"]), "meta": note})
    empty = envelope_template(job.task, plan, is_fair=app.settings.fair_share)
    try:
        return compose(app.store_connection, empty, plan, msgspec.json.decode(row["args"]), None).envelope
    except InvalidArguments:  # too large to send: the results have the arguments
        return compose(app.store_connection, empty, plan, {}, None).envelope
