"""Stop workers."""

from typing import Annotated, Any, Literal

from stem.contracts.steering.control import ShutdownMode
from stem.control.registry import Call, Option, Payload, command

Spelling = Literal["warm", "soft", "hard", "cold", "force"]

_MODES: dict[Spelling, ShutdownMode] = {"warm": "warm", "soft": "soft", "hard": "hard", "cold": "soft", "force": "hard"}


class Shutdown(Payload, frozen=True):
    mode: Annotated[Spelling, Option("--mode", "How to stop; cold means soft, force means hard.")] = "warm"


@command("shutdown", changes=True, rows=lambda told: [(f"{told['mode']} shutdown begun",)])
def shutdown(call: Call[Shutdown]) -> dict[str, Any]:
    """Stop workers. Returns when they have begun to stop.

    \b
    warm  lets tasks end
    soft  tells tasks to stop, and gives them a grace
    hard  puts tasks back into their queues at once

    \b
    Example: stem worker shutdown --mode warm --worker worker-a
    """
    mode = _MODES[call.payload.mode]
    call.worker.shutdown(mode)
    return {"mode": mode, "state": "draining"}
