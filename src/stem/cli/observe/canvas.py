"""`stem observe canvas`: how far chains, groups, chords and workflows are."""

from typing import TYPE_CHECKING

import click

from stem.cli.observe import live
from stem.cli.support import times
from stem.cli.support.flags import options
from stem.cli.support.stores import Session, in_session
from stem.core.lifecycle import State

if TYPE_CHECKING:
    from stem.client.canvas.handle import CanvasStatus
    from stem.core.record import TaskRecord


@click.command()
@options.limit(20)
@live.follow
@in_session
def canvas(session: Session, limit: int, follow: bool) -> None:
    """Show the newest canvases: state, tasks that are done, and failures.

    \b
    Example: stem observe canvas --follow
    """
    with session.app() as app:
        from stem.core.prerequisites import CANVAS
        from stem.core.record import TaskFilter

        def look() -> live.LiveTable:
            page, now = app.store.results.page(TaskFilter(name=CANVAS), limit=limit), app.store.upkeep.now()
            found = [(record, app.canvas(record.id).status()) for record in page.items]
            return live.LiveTable(
                name="canvases",
                columns=("id", "name", "state", "done", "failed", "submitted"),
                rows=[_row(record, status, now) for record, status in found],
                empty="There is no canvas.",
                shrink=("name",),
                states=("state",),
            )

        live.show(look, as_json=session.as_json, follows=follow)


def _row(record: "TaskRecord", status: "CanvasStatus", now: float) -> live.LiveRow:
    done, failed = status.counts.get(State.SUCCEEDED, 0), status.counts.get(State.FAILED, 0)
    shape = {
        "id": status.id,
        "name": status.name,
        "state": status.state,
        "total": status.total,
        "counts": status.counts,
        "submittedAt": record.enqueued_at,
    }
    share = f"{done:,} of {status.total:,}"
    cells = (status.id, status.name or "", status.state, share, failed, times.age(record.enqueued_at, now))
    return live.LiveRow(status.id, cells, shape)
