"""`stem queue`: how much waits, what comes next, and how to drop it."""

import click

from stem.cli import consent, show, times
from stem.cli.session import Session, in_session


@click.group()
def queue() -> None:
    """Look into queues and empty them.

    \b
    Example: stem queue list
    """


@queue.command("list")
@in_session
def list_queues(session: Session) -> None:
    """List queues with exact counts.

    \b
    Example: stem queue list --json
    """
    with session.store() as store:
        depths = sorted(store.broker.depth().items())
    if session.as_json:
        from stem.cli import shapes

        show.json({"queues": [shapes.queue(name, depth) for name, depth in depths]})
    else:
        rows = [(name, depth.ready, depth.delayed, depth.running, depth.dead) for name, depth in depths]
        show.table(("queue", "ready", "delayed", "running", "dead"), rows, empty="No queue holds a task.")


@queue.command()
@click.argument("queue")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), metavar="N", default=20, show_default=True, help="At most so many."
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
        waiting = store.broker.peek(queue, limit=limit)
    if session.as_json:
        from stem.cli import shapes

        show.json({"queue": queue, "tasks": [shapes.waiting(task) for task in waiting]})
    else:
        rows = [(task.id, task.name, task.priority, task.attempt, times.written(task.due_at)) for task in waiting]
        show.table(("id", "task", "priority", "attempt", "due"), rows, empty=f"Nothing waits in {queue}.")


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
