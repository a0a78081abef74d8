"""Resume queues that were paused."""

from functools import partial
from typing import Any

from stem.control.commands.pause import QueueOptions, Queues, change_queues, paused_rows
from stem.control.registry import Call, command


@command(
    "resume",
    changes=True,
    options=QueueOptions,
    ask=partial(change_queues, "resume"),
    columns=("paused",),
    rows=paused_rows,
)
def resume(call: Call[Queues]) -> dict[str, Any]:
    """Go on with queues that were paused.

    \b
    Example: stem queue resume default
             stem worker resume --worker worker-a --queue default
    """
    call.worker.note_pauses(call.payload.signed)
    return {"paused": call.worker.resume(call.payload.queues)}
