"""Show which queues workers serve."""

from typing import Any

from stem.control.registry import Call, NoPayload, command


def _rows(told: dict[str, Any]) -> list[tuple[object, ...]]:
    return [
        (queue, "paused" if each["paused"] else "", each["ready"], each["delayed"], each["running"], each["dead"])
        for queue, each in sorted(told["queues"].items())
    ]


@command(
    "queue-status",
    columns=("queue", "", "ready", "delayed", "running", "dead"),
    rows=_rows,
    shrink=("worker", "queue"),
)
def queue_status(call: Call[NoPayload]) -> dict[str, Any]:
    """List the queues that each worker serves, and which of them are paused.

    \b
    Example: stem worker queue-status
    """
    return {"state": call.worker.state, "queues": call.worker.queue_status()}
