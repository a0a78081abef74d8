"""`stem schedule run` and `backfill`: enqueue a schedule's task now, or for instants of the past."""

from datetime import datetime

import click

from stem.cli.support import completing, printing, times
from stem.cli.support.stores import Session, in_session


@click.command()
@click.argument("schedule_id", metavar="ID", shell_complete=completing.schedule_ids)
@in_session
def run(session: Session, schedule_id: str) -> None:
    """Enqueue schedule ID once, now; its calendar does not change.

    \b
    Example: stem schedule run nightly
    """
    from stem.scheduler.entries import run_now

    with session.sending_app(session.app_path) as app:
        task_id = run_now(app, schedule_id)
    if session.as_json:
        printing.json({"id": schedule_id, "taskId": task_id})
    else:
        click.echo(task_id)


@click.command()
@click.argument("schedule_id", metavar="ID", shell_complete=completing.schedule_ids)
@click.option("--since", required=True, type=times.MOMENT, help="The first moment of the period.")
@click.option("--until", required=True, type=times.MOMENT, help="The last moment of the period.")
@in_session
def backfill(session: Session, schedule_id: str, since: datetime, until: datetime) -> None:
    """Enqueue schedule ID for each instant of a period that it has not run for.

    \b
    Example: stem schedule backfill daily --since 2030-01-01T00Z --until …
    """
    from stem.scheduler import entries

    with session.sending_app(session.app_path) as app:
        ids = list(entries.backfill(app, schedule_id, since, until))
    if session.as_json:
        printing.json({"id": schedule_id, "taskIds": ids})
    else:
        click.echo(f"Enqueued {len(ids)}.")
