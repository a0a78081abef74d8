"""`stem pipeline triage`: group dead letters by task, reason and error, and replay a group."""

from typing import TYPE_CHECKING

import click
import msgspec

from stem.cli.support import printing, times
from stem.cli.support.stores import Session, in_session

if TYPE_CHECKING:
    from stem.pipeline.report.triage import Cluster

_WIDTH = 80


@click.command()
@click.option("--queue", help="Only letters of this queue.")
@click.option("--name", help="Only letters of this task.")
@click.option("--since", type=times.DURATION, help="Only letters since: 1h, 7d.")
@click.option(
    "--replay",
    "cluster",
    metavar="CLUSTER",
    help="Queue all letters of this cluster again: an id from here or from a report.",
)
@click.option("--delay", type=times.DURATION, default=0.0, help="Delay their start: 10s, 5m.")
@click.option("--dry-run", is_flag=True, help="Only print how many.")
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
    from stem.pipeline.report import triage as letters

    with session.store() as store:
        where = DeadFilter(queue=queue, name=name, since=times.since(since, store.upkeep.now()))
        if cluster is not None:
            ids = letters.replay(store, cluster, where, delay_seconds=delay, dry_run=dry_run)
            if session.as_json:
                printing.json({"cluster": cluster, "replayed": ids, "dryRun": dry_run})
            else:
                click.echo(f"{'Would replay' if dry_run else 'Replayed'} {len(ids):,}.")
            return
        clusters = letters.triage(store, where)
    commands = {each.id: session.command("pipeline", "triage", replay=each.id) for each in clusters}
    if session.as_json:
        shown = [{**msgspec.to_builtins(each), "replay": commands[each.id]} for each in clusters]
        printing.json({"clusters": shown, "note": session.note})
        return
    if not clusters:
        click.echo("There is no dead letter.")
    for each in clusters:
        click.echo("\n".join([*_lines(each), f"  {commands[each.id]}\n"]))
    if clusters and session.note:
        click.echo(session.note)


def _lines(cluster: "Cluster") -> list[str]:
    """Several short lines, because one would be wider than a terminal."""
    letters = f"{cluster.count:,} letter{'s' if cluster.count > 1 else ''}"
    error = f"{cluster.error_type}: {cluster.pattern}" if cluster.error_type else "no error was recorded"
    first, last = times.written(cluster.first_at), times.written(cluster.last_at)
    when = last if first == last else f"{first} to {last}"
    newest = f"newest: {cluster.sample_ids[0]}"
    below = (f"  {printing.short(line, _WIDTH - 2)}" for line in (error, f"{cluster.reason}, {when}", newest))
    return [printing.plain(f"{cluster.id}  {letters}  {cluster.task}"), *below]
