"""Change how often a task may start."""

from typing import Any

from stem.control.registry import Call, Payload, command
from stem.core.envelope import check_name
from stem.core.ratelimit import parse_rate


class RateLimit(Payload, frozen=True):
    """`rate` as in `5/s` or `100/m`; none takes the limit away."""

    task: str
    rate: str | None = None


@command("rate-limit", RateLimit, changes=True, help="Change how often a task may start, or take its limit away.")
def rate_limit(call: Call[RateLimit]) -> dict[str, Any]:
    check_name(call.payload.task)
    if call.payload.rate is not None:
        parse_rate(call.payload.rate)
    return call.worker.rate_limit(call.payload.task, call.payload.rate)
