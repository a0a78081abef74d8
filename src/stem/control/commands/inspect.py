"""What are you doing?"""

from typing import Any

import msgspec

from stem.control.registry import Call, Payload, command


class Stats(Payload, frozen=True):
    include_tasks: bool = False


class Filters(Payload, frozen=True, omit_defaults=True):
    queue: str | None = None
    task: str | None = None
    id: str | None = None


class ListActive(Payload, frozen=True):
    filters: Filters = Filters()
    include_revoked: bool = False


@command("stats", Stats, help="Counts, concurrency and memory of workers; with includeTasks, their tasks too.")
def stats(call: Call[Stats]) -> dict[str, Any]:
    return call.worker.stats(call.payload.include_tasks)


@command("list-active", ListActive, aliases=("inspect", "active"), help="The tasks that workers have in flight.")
def list_active(call: Call[ListActive]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "state": call.worker.state,
        "tasks": call.worker.active(msgspec.to_builtins(call.payload.filters)),
    }
    return {**told, "revoked": call.worker.revoked()} if call.payload.include_revoked else told
