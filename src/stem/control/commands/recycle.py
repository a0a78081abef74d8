"""Replace the isolates of workers."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from stem.control.registry import Call, Option, Payload, command
from stem.core.errors import StemError

if TYPE_CHECKING:
    from stem.control.caller import Answers

Pid = Annotated[int, msgspec.Meta(ge=1)]


class IsolateUnknown(StemError):
    """No worker has an isolate of that process id."""

    exit_code = 1


class Recycle(Payload, frozen=True):
    """Process ids of isolates; none given: all of them."""

    isolates: Annotated[
        Annotated[list[Pid], msgspec.Meta(min_length=1)] | None,
        Option("--isolate", "Replace only this isolate.", metavar="PID"),
    ] = None


def _check(payload: Recycle, answers: "Answers") -> None:
    """Refuses a process id that no worker has; each worker only knows its own."""
    replies = [reply for reply in answers.replies.values() if reply.status == "ok"]
    told = [reply.payload.get("recycling") for reply in replies]
    missing = [
        str(pid) for pid in payload.isolates or () if not any(isinstance(each, list) and pid in each for each in told)
    ]
    if missing and replies:
        raise IsolateUnknown(
            f"No worker that was asked has the isolate {', '.join(missing)}; see: stem worker stats --json"
        )


@command(
    "recycle",
    changes=True,
    check=_check,
    columns=("recycling",),
    rows=lambda told: [(", ".join(map(str, told["recycling"])) or "none",)],
)
def recycle(call: Call[Recycle]) -> dict[str, Any]:
    """Replace isolates by fresh ones, each after the task that it runs.

    \b
    Example: stem worker recycle --worker worker-a --isolate 4711
    """
    return call.worker.recycle(call.payload.isolates)
