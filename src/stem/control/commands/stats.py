"""Show what workers have done and what they hold."""

from typing import Annotated, Any

from stem.control.registry import Call, Option, Payload, command
from stem.core.settings.kinds import span


class Stats(Payload, frozen=True):
    include_tasks: Annotated[bool, Option("--tasks", "Include the running tasks.")] = False


def _rows(told: dict[str, Any]) -> list[tuple[object, ...]]:
    counters = ",".join(f"{name}:{count}" for name, count in sorted(told["counters"].items()) if count)
    queues = ",".join(f"{queue} (paused)" if queue in told["pausedQueues"] else queue for queue in told["queues"])
    row = (
        f"{told['inflight']}/{told['activeConcurrency']}",
        told["maxConcurrency"],
        told["reserved"],
        told.get("queueDepth"),
        queues,
        told["pid"],
        span(told["uptimeSeconds"]),
        counters,
    )
    if "active" not in told:
        return [row]
    return [(*row, ", ".join(f"{each['task']} {each['id']}" for each in told["active"]))]


def _columns(payload: Stats) -> tuple[str, ...]:
    columns = ("running", "max", "reserved", "depth", "queues", "pid", "up", "counters")
    return (*columns, "tasks") if payload.include_tasks else columns


@command("stats", columns=_columns, rows=_rows, shrink=("worker", "queues", "counters"))
def stats(call: Call[Stats]) -> dict[str, Any]:
    """Show concurrency, running and reserved tasks, and counters per worker.

    \b
    Example: stem worker stats --tasks --json
    """
    return call.worker.stats(call.payload.include_tasks)
