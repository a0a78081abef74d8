"""`stem observe tasks`: the newest tasks and their states."""

from typing import TYPE_CHECKING

import click

from stem.cli.observe import live
from stem.cli.support import printing, times
from stem.cli.support.flags import options
from stem.cli.support.stores import Session, in_session
from stem.core.lifecycle import State

if TYPE_CHECKING:
    from stem.core.record import TaskRecord


@click.command()
@options.state
@options.queue
@options.name
@options.limit(20)
@live.follow
@in_session
def tasks(session: Session, state: str | None, queue: str | None, name: str | None, limit: int, follow: bool) -> None:
    """Show the newest tasks with their state, progress and error.

    \b
    Example: stem observe tasks --state running --follow
    """
    with session.store() as store:
        from stem.core.record import TaskFilter

        where = TaskFilter(state=State(state) if state else None, queue=queue, name=name)

        def look() -> live.LiveTable:
            page, now = store.results.page(where, limit=limit), store.upkeep.now()
            return live.LiveTable(
                name="tasks",
                columns=("id", "task", "state", "try", "enqueued"),
                rows=[_row(record, now) for record in page.items],
                empty="No task matches.",
                shrink=("task",),
                states=("state",),
                varying=("heartbeatAt", "updatedAt"),
            )

        live.show(look, as_json=session.as_json, follows=follow)


def _row(record: "TaskRecord", now: float) -> live.LiveRow:
    from stem.cli.support import json_forms

    cells = (
        record.id,
        record.name,
        record.state,
        record.attempt + 1,
        times.age(record.enqueued_at, now),
    )
    note = printing.error(record.error)
    if not note and record.state is State.RUNNING:
        note = printing.progress(record.meta.get("progress"))
    return live.LiveRow(record.id, cells, json_forms.record(record), note)
