"""Fresh processes for a worker."""

from typing import Annotated, Any

import msgspec

from stem.control.registry import Call, Payload, command

Pid = Annotated[int, msgspec.Meta(ge=1)]


class Recycle(Payload, frozen=True):
    """Process ids of isolates; none given: all of them."""

    isolates: Annotated[list[Pid], msgspec.Meta(min_length=1)] | None = None


@command("recycle", Recycle, changes=True, help="Replace isolates by fresh ones, each after its task.")
def recycle(call: Call[Recycle]) -> dict[str, Any]:
    return call.worker.recycle(call.payload.isolates)
