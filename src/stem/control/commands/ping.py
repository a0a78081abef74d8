"""Ask whether workers are there."""

from typing import Any

from stem.control.registry import Call, NoPayload, command


@command("ping", rows=lambda told: [(f"pong, up {told['uptimeSeconds']:.0f} s",)])
def ping(call: Call[NoPayload]) -> dict[str, Any]:
    """Check that workers answer, and show their state.

    A worker is ok, paused, draining or wedged (it lives and fetches nothing); one that does not answer in time is timeout, or
    dead. Exit code 0 if all that are known have answered, 70 if one has not, 1 if none is known.

    \b
    Example: stem worker ping --worker worker-a --worker worker-b
    """
    return {"pong": True, "workerId": call.worker.worker_id, **call.worker.pong()}
