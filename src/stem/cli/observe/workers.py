"""`stem observe workers`: who runs tasks, since when, and how busily."""

from typing import TYPE_CHECKING

import click

from stem.cli.observe import live
from stem.cli.support.stores import Session, in_session
from stem.core.settings.kinds import span

if TYPE_CHECKING:
    from stem.observe.workers import WorkerSummary


@click.command()
@live.follow
@in_session
def workers(session: Session, follow: bool) -> None:
    """Show workers: state, uptime, concurrency, autoscaling, and what they have done.

    `scale` has the bounds of autoscaling; `revoked` counts the tasks that a worker has cancelled.

    \b
    Example: stem observe workers --json
    """
    with session.store() as store:
        from stem.observe.workers import workers as worker_views

        def look() -> live.LiveTable:
            return live.LiveTable(
                name="workers",
                columns=("worker", "state", "up", "running", "scale", "done", "failed", "revoked", "queues"),
                rows=[_row(view) for view in worker_views(store)],
                empty="No worker is running.",
                shrink=("worker", "queues"),
                states=("state",),
                varying=("ageSeconds",),
            )

        live.show(look, as_json=session.as_json, follows=follow)


def _row(view: "WorkerSummary") -> live.LiveRow:
    state = "silent" if view.is_silent else view.state
    scale = view.autoscale
    cells = (
        view.id,
        state,
        span(view.uptime_seconds + view.age_seconds),
        f"{view.in_flight}/{view.concurrency}" if view.kind == "worker" else "",
        "" if scale is None else f"{scale.minimum}-{scale.maximum}",
        view.succeeded,
        view.failed,
        view.counters.get("revoked", 0),
        ",".join(view.queues),
    )
    shape = {
        "workerId": view.id,
        "kind": view.kind,
        "state": state,
        "host": view.host,
        "pid": view.pid,
        "uptimeSeconds": view.uptime_seconds,
        "ageSeconds": round(view.age_seconds, 1),
        "concurrency": view.concurrency,
        "inFlight": view.in_flight,
        "held": view.held,
        "autoscale": None if scale is None else {"min": scale.minimum, "max": scale.maximum},
        "memoryBytes": view.memory_bytes,
        "queues": view.queues,
        "counters": view.counters,
        "revoked": view.counters.get("revoked", 0),
    }
    return live.LiveRow(view.id, cells, shape)
