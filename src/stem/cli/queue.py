"""`stem queue`: how much waits, what comes next, and how to drop it."""

import click

from stem.cli import consent, show, times
from stem.cli.later import Later
from stem.cli.session import Session, in_session

_CONTROL = {verb: f"stem.cli.worker_control:{verb}" for verb in ("pause", "resume")}


@click.group(cls=Later, homes=_CONTROL)
def queue() -> None:
    """Inspect queues, pause them, empty them.

    \b
    Example: stem queue list
    """


@queue.command("list")
@in_session
def list_queues(session: Session) -> None:
    """List queues with exact counts, how many workers serve each, and which are paused.

    \b
    Example: stem queue list --json
    """
    from stem.cli import queue_states

    with session.store() as store, session.marks(store) as marks:
        states = queue_states.queue_states(store, marks)
    if session.as_json:
        show.json({"queues": [state.shape() for state in states]})
    else:
        rows = map(queue_states.row, states)
        show.table(
            queue_states.COLUMNS,
            rows,
            empty="No queue holds a task, and no worker is running.",
            shrink=queue_states.SHRINK,
        )


@queue.command()
@click.argument("queue")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), metavar="N", default=20, show_default=True, help="Show at most N."
)
@in_session
def peek(session: Session, queue: str, limit: int) -> None:
    """Show what waits in QUEUE, next first, and leave it there.

    \b
    Example: stem queue peek default --limit 5
    """
    from stem.core.envelope import check_queue

    check_queue(queue)
    with session.store() as store:
        waiting, now = store.broker.peek(queue, limit=limit), store.upkeep.now()
    if session.as_json:
        from stem.cli import shapes

        show.json({"queue": queue, "tasks": [shapes.waiting(task) for task in waiting]})
    else:
        rows = [(task.id, task.name, task.priority, task.attempt, times.age(task.due_at, now)) for task in waiting]
        columns = ("id", "task", "priority", "attempt", "due")
        show.table(columns, rows, empty=f"Nothing waits in {queue}.", shrink=("task",))


@queue.command()
@click.argument("queue")
@click.option("--yes", is_flag=True, help="Do not ask.")
@in_session
def purge(session: Session, queue: str, yes: bool) -> None:
    """Cancel all that waits in QUEUE; running tasks and dead letters stay.

    \b
    Example: stem queue purge default --yes
    """
    from stem.core.envelope import check_queue

    check_queue(queue)
    if not consent.is_given(f"Cancel everything that waits in {queue}?", yes=yes):
        click.echo("Nothing was cancelled.", err=True)
        return
    with session.store() as store:
        count = store.broker.purge(queue)
    if session.as_json:
        show.json({"queue": queue, "purged": count})
    else:
        click.echo(f"Cancelled {count} in {queue}.")
