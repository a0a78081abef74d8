"""`stem pipeline triage`: dead letters by what they died of, and their replay in bulk."""

import click
import msgspec

from stem.cli import show, times
from stem.cli.session import Session, in_session


@click.command()
@click.option("--queue", help="Only those of this queue.")
@click.option("--name", help="Only those of this task name.")
@click.option("--since", type=times.DURATION, help="Only those dead since: 1h, 7d.")
@click.option("--replay", "cluster", metavar="CLUSTER", help="Queue all letters of this cluster again.")
@click.option("--delay", type=times.DURATION, default=0.0, help="Let them wait first: 10s, 5m.")
@click.option("--dry-run", is_flag=True, help="Only say how many.")
@in_session
def triage(
    session: Session,
    queue: str | None,
    name: str | None,
    since: float | None,
    cluster: str | None,
    delay: float,
    dry_run: bool,
) -> None:
    """Group dead letters by task, reason and error.

    Messages that differ only in numbers, ids, paths and quoted text count as one. Each cluster comes with the command that
    replays it.

    \b
    Example: stem pipeline triage --replay 5f1c0a9be02d
    """
    from stem.core.delivery import DeadFilter
    from stem.pipeline import triage as letters

    with session.store() as store:
        if cluster is not None:
            ids = letters.replay(store, cluster, delay_seconds=delay, dry_run=dry_run)
            if session.as_json:
                show.json({"cluster": cluster, "replayed": ids, "dryRun": dry_run})
            else:
                click.echo(f"{'Would replay' if dry_run else 'Replayed'} {len(ids):,}.")
            return
        start = times.since(since, store.upkeep.now())
        clusters = letters.triage(store, DeadFilter(queue=queue, name=name, since=start))
    commands = {each.id: session.command("pipeline", "triage", replay=each.id) for each in clusters}
    if session.as_json:
        told = [{**msgspec.to_builtins(each), "replay": commands[each.id]} for each in clusters]
        show.json({"clusters": told, "note": session.note})
        return
    rows = [
        (
            each.id,
            each.count,
            each.task,
            each.reason,
            f"{each.error_type}: {each.pattern}"[:80],
            times.written(each.first_at),
            times.written(each.last_at),
            each.sample_ids[0],
        )
        for each in clusters
    ]
    show.table(
        ("cluster", "letters", "task", "reason", "error", "first", "last", "newest"),
        rows,
        empty="There is no dead letter.",
    )
    if clusters:
        click.echo("\n".join(["\nReplay:", *(f"  {command}" for command in commands.values())]))
    if clusters and session.note:
        click.echo(f"\n{session.note}")
