"""Are you there?"""

from typing import Any

from stem.control.registry import Call, Nothing, command


@command("ping", Nothing, help="Ask workers whether they are there, and in what state.")
def ping(call: Call[Nothing]) -> dict[str, Any]:
    return {"pong": True, "workerId": call.worker.worker_id, **call.worker.pong()}
