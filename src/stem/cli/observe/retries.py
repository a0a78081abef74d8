"""`stem observe retries`: which tasks wait for another attempt, and when it comes."""

from typing import TYPE_CHECKING

import click

from stem.cli.observe import live
from stem.cli.support import printing, times
from stem.cli.support.flags import options
from stem.cli.support.stores import Session, in_session

if TYPE_CHECKING:
    from stem.observe.retries import WaitingRetry


@click.command()
@options.queue
@options.name
@options.limit(50)
@live.follow
@in_session
def retries(session: Session, queue: str | None, name: str | None, limit: int, follow: bool) -> None:
    """Show tasks that wait for a retry, and the error of their last attempt.

    \b
    Example: stem observe retries --queue mail --follow
    """
    with session.store() as store:
        from stem.observe.retries import retries as waiting_retries

        def look() -> live.LiveTable:
            found, now = waiting_retries(store, queue=queue, name=name, limit=limit), store.upkeep.now()
            return live.LiveTable(
                name="retries",
                columns=("id", "task", "queue", "try", "next"),
                rows=[_row(each, now) for each in found],
                empty="No task waits for a retry.",
                shrink=("task", "queue"),
            )

        live.show(look, as_json=session.as_json, follows=follow)


def _row(found: "WaitingRetry", now: float) -> live.LiveRow:
    record = found.record
    shape = {
        "id": record.id,
        "name": record.name,
        "queue": record.queue,
        "attempt": record.attempt,
        "dueAt": found.due_at,
        "error": record.error,
    }
    due = times.age(found.due_at, now) if found.due_at is None or found.due_at.timestamp() > now else "due"
    cells = (record.id, record.name, record.queue, record.attempt + 1, due)
    return live.LiveRow(record.id, cells, shape, printing.error(record.error))
