"""Stop."""

from typing import Any, Literal

from stem.contracts.control import ShutdownMode
from stem.control.registry import Call, Payload, command

Spelling = Literal["warm", "soft", "hard", "cold", "force"]

_MODES: dict[Spelling, ShutdownMode] = {"warm": "warm", "soft": "soft", "hard": "hard", "cold": "soft", "force": "hard"}


class Shutdown(Payload, frozen=True):
    mode: Spelling = "warm"


@command(
    "shutdown",
    Shutdown,
    changes=True,
    help="Stop workers: warm lets tasks end, soft gives them a grace, hard puts them back at once.",
)
def shutdown(call: Call[Shutdown]) -> dict[str, Any]:
    mode = _MODES[call.payload.mode]
    call.worker.shutdown(mode)
    return {"mode": mode, "state": "draining"}
