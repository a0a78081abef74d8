"""`stem queue`: list queues, pause them, empty them."""

import click

from stem.cli.support import completing, confirm, printing, times
from stem.cli.support.flags import options
from stem.cli.support.lazy_group import LazyGroup
from stem.cli.support.stores import Session, in_session

_CONTROL = {verb: f"stem.cli.worker.control:{verb}" for verb in ("pause", "resume")}


@click.group(cls=LazyGroup, homes=_CONTROL)
def queue() -> None:
    """List queues, pause them, empty them.

    \b
    Example: stem queue list
    """


@queue.command("list")
@in_session
def list_queues(session: Session) -> None:
    """List queues with their tasks and workers, and which are paused.

    \b
    Example: stem queue list --json
    """
    from stem.control import queue_states

    with session.store() as store, session.revokes(store) as revokes:
        states = queue_states.queue_states(store, revokes)
    if session.as_json:
        printing.json({"queues": [state.shape() for state in states]})
    else:
        rows = map(queue_states.row, states)
        printing.table(
            queue_states.COLUMNS,
            rows,
            empty="No queue holds a task, and no worker is running.",
            shrink=queue_states.SHRINK,
        )


@queue.command()
@click.argument("queue", shell_complete=completing.queues)
@options.limit(20)
@in_session
def peek(session: Session, queue: str, limit: int) -> None:
    """Show the tasks that wait in QUEUE, next first.

    \b
    Example: stem queue peek default --limit 5
    """
    from stem.core.envelope import check_queue

    check_queue(queue)
    with session.store() as store:
        waiting, now = store.broker.peek(queue, limit=limit), store.upkeep.now()
    if session.as_json:
        from stem.cli.support import json_forms

        printing.json({"queue": queue, "tasks": [json_forms.waiting(task) for task in waiting]})
    else:
        rows = [(task.id, task.name, task.priority, task.attempt, times.age(task.due_at, now)) for task in waiting]
        columns = ("id", "task", "priority", "attempt", "due")
        printing.table(columns, rows, empty=f"Nothing waits in {queue}.", shrink=("task",))


@queue.command()
@click.argument("queue", shell_complete=completing.queues)
@options.yes
@in_session
def purge(session: Session, queue: str, yes: bool) -> None:
    """Cancel all tasks that wait in QUEUE; running tasks and dead letters stay.

    \b
    Example: stem queue purge default --yes
    """
    from stem.core.envelope import check_queue

    check_queue(queue)
    if not confirm.is_confirmed(f"Cancel everything that waits in {queue}?", yes=yes):
        click.echo("Nothing was cancelled.", err=True)
        return
    with session.store() as store:
        count = store.broker.purge(queue)
    if session.as_json:
        printing.json({"queue": queue, "purged": count})
    else:
        click.echo(f"Cancelled {count} in {queue}.")
