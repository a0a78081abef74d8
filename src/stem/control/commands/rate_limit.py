"""Change how often a task may start."""

from typing import Annotated, Any

from stem.control.registry import Call, Option, Payload, command
from stem.core.decisions.ratelimit import parse_rate
from stem.core.envelope import check_name


class RateLimit(Payload, frozen=True):
    """`rate` as in `5/s` or `100/m`; None takes the limit away."""

    task: Annotated[str, Option("TASK")]
    rate: Annotated[str | None, Option("RATE", word_for_none="none")] = None


@command(
    "rate-limit",
    changes=True,
    columns=("task", "rate"),
    rows=lambda told: [(told["task"], told["rateLimit"] or "none")],
)
def rate_limit(call: Call[RateLimit]) -> dict[str, Any]:
    """Let TASK start no more often than RATE; `none` lifts its limit.

    The change holds until workers are restarted.

    \b
    Example: stem worker rate-limit mail.send 100/m
    """
    check_name(call.payload.task)
    if call.payload.rate is not None:
        parse_rate(call.payload.rate)
    return call.worker.rate_limit(call.payload.task, call.payload.rate)
