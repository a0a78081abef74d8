"""Leave a queue alone for a while, and come back to it."""

from typing import Annotated, Any

import msgspec

from stem.control.registry import Call, Nothing, Payload, command

QueueName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:\-]{0,127}\Z")]


class Queues(Payload, frozen=True):
    queues: tuple[QueueName, ...] = ()


@command("pause", Queues, changes=True, help="Start nothing more of these queues.")
def pause(call: Call[Queues]) -> dict[str, Any]:
    return {"paused": call.worker.pause(call.payload.queues)}


@command("resume", Queues, changes=True, help="Go on with queues that were paused.")
def resume(call: Call[Queues]) -> dict[str, Any]:
    return {"paused": call.worker.resume(call.payload.queues)}


@command("queue-status", Nothing, help="The queues that workers serve, and which of them are paused.")
def queue_status(call: Call[Nothing]) -> dict[str, Any]:
    return {"state": call.worker.state, "queues": call.worker.queue_status()}
