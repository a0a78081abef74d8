"""`stem pipeline triage`: dead letters by what they died of, and their replay in bulk."""

from typing import TYPE_CHECKING

import click
import msgspec

from stem.cli import show, times
from stem.cli.session import Session, in_session

if TYPE_CHECKING:
    from stem.pipeline.triage import Cluster

_WIDTH = 80


@click.command()
@click.option("--queue", help="Only those of this queue.")
@click.option("--name", help="Only those of this task name.")
@click.option("--since", type=times.DURATION, help="Only those dead since: 1h, 7d.")
@click.option(
    "--replay",
    "cluster",
    metavar="CLUSTER",
    help="Queue all letters of this cluster again: an id from here or from a report.",
)
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
    replays it; --queue, --name and --since narrow down what is shown and what is replayed.

    \b
    Example: stem pipeline triage --replay 5f1c0a9be02d
    """
    from stem.core.delivery import DeadFilter
    from stem.pipeline import triage as letters

    with session.store() as store:
        where = DeadFilter(queue=queue, name=name, since=times.since(since, store.upkeep.now()))
        if cluster is not None:
            ids = letters.replay(store, cluster, where, delay_seconds=delay, dry_run=dry_run)
            if session.as_json:
                show.json({"cluster": cluster, "replayed": ids, "dryRun": dry_run})
            else:
                click.echo(f"{'Would replay' if dry_run else 'Replayed'} {len(ids):,}.")
            return
        clusters = letters.triage(store, where)
    commands = {each.id: session.command("pipeline", "triage", replay=each.id) for each in clusters}
    if session.as_json:
        told = [{**msgspec.to_builtins(each), "replay": commands[each.id]} for each in clusters]
        show.json({"clusters": told, "note": session.note})
        return
    if not clusters:
        click.echo("There is no dead letter.")
    for each in clusters:
        click.echo("\n".join([*_told(each), f"  {commands[each.id]}\n"]))
    if clusters and session.note:
        click.echo(session.note)


def _told(cluster: "Cluster") -> list[str]:
    """A few short lines, because one with all of it is twice as wide as a terminal."""
    letters = f"{cluster.count:,} letter{'s' if cluster.count > 1 else ''}"
    error = f"{cluster.error_type}: {cluster.pattern}" if cluster.error_type else "no error was recorded"
    first, last = times.written(cluster.first_at), times.written(cluster.last_at)
    when = last if first == last else f"{first} to {last}"
    newest = f"newest: {cluster.sample_ids[0]}"
    below = (f"  {show.short(line, _WIDTH - 2)}" for line in (error, f"{cluster.reason}, {when}", newest))
    return [show.plain(f"{cluster.id}  {letters}  {cluster.task}"), *below]
