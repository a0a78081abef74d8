"""`stem observe queues`: how much waits and runs, how fast it goes, and what is paused."""

from typing import TYPE_CHECKING

import click

from stem.cli.observe import live
from stem.cli.support.stores import Session, in_session

if TYPE_CHECKING:
    from stem.observe.queues import QueueView

RATE_SECONDS = 300


@click.command()
@live.follow
@in_session
def queues(session: Session, follow: bool) -> None:
    """Show queues: their tasks, workers and pauses, and attempts per minute.

    The rate is that of the last five minutes, as workers count it.

    \b
    Example: stem observe queues --follow
    """
    with session.store() as store, session.revokes(store) as revokes:
        from stem.observe.queues import queues as queue_views
        from stem.observe.rates import period, read_rows

        def look() -> live.LiveTable:
            span = period(store.upkeep.now(), RATE_SECONDS)
            found = queue_views(store, revokes, read_rows(store, span), span)
            return live.LiveTable(
                name="queues",
                columns=("queue", "ready", "delayed", "blocked", "running", "dead", "workers", "/min", "remark"),
                rows=[_row(view) for view in found],
                empty="No queue holds a task, and no worker is running.",
                shrink=("queue", "remark"),
            )

        live.show(look, as_json=session.as_json, follows=follow)


def _row(view: "QueueView") -> live.LiveRow:
    state, totals = view.state, view.history.totals
    depth, per_minute = state.depth, totals.ended * 60 / RATE_SECONDS
    counts = (depth.ready, depth.delayed, depth.blocked, depth.running, depth.dead)
    shape = {
        **state.shape(),
        "perMinute": round(per_minute, 1),
        "failed": totals.failed,
        "runP95Seconds": totals.run_p95,
    }
    return live.LiveRow(state.name, (state.name, *counts, len(state.workers), f"{per_minute:.0f}", state.remark), shape)
