"""List the tasks that workers run."""

from typing import Annotated, Any

import msgspec

from stem.control.registry import Call, Option, Payload, command
from stem.core.settings.kinds import span


class Filters(Payload, frozen=True, omit_defaults=True):
    queue: Annotated[str | None, Option("-Q --queue", "Only tasks of this queue.", metavar="QUEUE")] = None
    task: Annotated[str | None, Option("--name --task", "Only tasks of this name.", metavar="NAME")] = None
    id: Annotated[str | None, Option("--id", "Only this task.", metavar="ID")] = None


class ListActive(Payload, frozen=True):
    filters: Filters = Filters()
    include_revoked: Annotated[
        bool, Option("--revoked", "Also print the tasks that the worker knows to be revoked.")
    ] = False


def _rows(told: dict[str, Any]) -> list[tuple[object, ...]]:
    running = [
        (
            each["id"],
            each["task"],
            each["queue"],
            each["attempt"],
            span(each["runSeconds"]),
            each.get("isolate", ""),
            "revoked" if each["isRevoked"] else "",
        )
        for each in told["tasks"]
    ]
    return [*running, *((task_id, "", "", "", "", "", "revoked") for task_id in told.get("revoked", ()))]


@command(
    "list-active",
    aliases=("inspect", "active"),
    columns=("id", "task", "queue", "attempt", "running for", "isolate", ""),
    rows=_rows,
    shrink=("worker", "task", "queue"),
)
def list_active(call: Call[ListActive]) -> dict[str, Any]:
    """List the tasks that run, longest first. Also called list-active, or active.

    \b
    Example: stem worker inspect --json
    """
    tasks = call.worker.active(msgspec.to_builtins(call.payload.filters))
    told: dict[str, Any] = {"state": call.worker.state, "tasks": tasks}
    return {**told, "revoked": call.worker.revoked()} if call.payload.include_revoked else told
