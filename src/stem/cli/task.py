"""`stem task`: what is known of a task, and what it returned."""

from datetime import datetime
from typing import TYPE_CHECKING

import click

from stem.cli import ending, paging, show, times
from stem.cli.session import Session, in_session
from stem.cli.task_export import export
from stem.core.lifecycle import State

if TYPE_CHECKING:
    from stem.core.record import TaskRecord


@click.group()
def task() -> None:
    """Ask after tasks and their results.

    \b
    Example: stem task list --state failed --since 1h
    """


task.add_command(export)


@task.command("show")
@click.argument("id")
@in_session
def show_task(session: Session, id: str) -> None:
    """Show all that is known of task ID.

    \b
    Example: stem task show 0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00
    """
    with session.app() as app:
        record = app.handle(id).status()
    if session.as_json:
        show.json(record)
    else:
        show.facts(_facts(record))
        show.stack(record.error.stack if record.error else "")


@task.command("list")
@click.option("--state", type=click.Choice([state.value for state in State]), help="Only those in this state.")
@click.option("--queue", help="Only those of this queue.")
@click.option("--name", help="Only those of this task name.")
@click.option("--since", type=times.DURATION_OR_MOMENT, help="Only those enqueued since: 1h, or an ISO moment.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), metavar="N", default=50, show_default=True, help="At most so many."
)
@click.option("--cursor", help="Go on where the last page ended.")
@in_session
def list_tasks(
    session: Session,
    state: str | None,
    queue: str | None,
    name: str | None,
    since: float | datetime | None,
    limit: int,
    cursor: str | None,
) -> None:
    """List tasks, newest first.

    \b
    Example: stem task list --state failed --since 1h
    """
    from stem.core.record import TaskFilter

    with session.store() as store:
        start = times.since(since, store.upkeep.now())
        where = TaskFilter(state=State(state) if state else None, queue=queue, name=name, since=start)
        with paging.at(cursor):
            page = store.results.page(where, limit=limit, cursor=cursor)
    if session.as_json:
        show.json({"tasks": page.items, "cursor": page.cursor})
        return
    rows = [(r.id, r.name, r.queue, r.state, r.attempt, times.written(r.enqueued_at)) for r in page.items]
    show.table(("id", "task", "queue", "state", "attempt", "enqueued"), rows, empty="No task matches.")
    if page.cursor is not None:
        again = {"state": state, "queue": queue, "name": name, "limit": limit, "cursor": page.cursor}
        show.more(session.command("task", "list", since=start and start.isoformat(), **again))


@task.command()
@click.argument("id")
@click.option("--wait", type=times.DURATION, default=0.0, help="Wait so long for its end: 30, 30s, 5m.")
@in_session
def result(session: Session, id: str, wait: float) -> None:
    """Print what task ID returned, as JSON.

    If it failed, its error and exit code 70.

    \b
    Example: stem task result 0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00 --wait 30s
    """
    with session.app() as app:
        ending.tell(app.handle(id), wait, as_json=session.as_json)


def _facts(record: "TaskRecord") -> dict[str, object]:
    import msgspec

    return {
        "id": record.id,
        "task": record.name,
        "queue": record.queue,
        "state": record.state,
        "attempt": record.attempt,
        "priority": record.priority,
        "worker": record.worker,
        "enqueued": times.written(record.enqueued_at),
        "started": times.written(record.started_at) or None,
        "finished": times.written(record.finished_at) or None,
        "result": None if record.payload is None else bytes(record.payload).decode(),
        "error": f"{record.error.type}: {record.error.message}" if record.error else None,
        "meta": msgspec.json.encode(record.meta).decode() if record.meta else None,
    }
