"""`stem pipeline run`: write events into the lake, once up to now or continuously."""

import time
from typing import TYPE_CHECKING

import click

from stem.cli.pipeline import options
from stem.cli.support import confirm, printing
from stem.cli.support.stores import Session, check_shared, in_session

if TYPE_CHECKING:
    from stem.pipeline.lake.stream_to_lake import Batch

_DAY_SECONDS = 86400.0


@click.command()
@click.option("--once/--follow", "once", default=True, help="Run up to now, or until stopped.  [default: --once]")
@click.option("--keep", type=options.KeepType(), help="Drop whole days older than this: 90d. Needs a unit.")
@click.option("--yes", is_flag=True, help="Keep less than a day without asking.")
@click.option(
    "--batch", "events", type=click.IntRange(1_000, 10_000_000), metavar="N", help="Read at most N events at a time."
)
@options.lake
@options.spark
@in_session
def run(
    session: Session,
    once: bool,
    keep: float | None,
    yes: bool,
    events: int | None,
    lake: str | None,
    master: str | None,
    remote: str | None,
) -> None:
    """Write the events of the store into the lake.

    Each event is written once, also after a crash. Only one run at a time can fill a lake.

    \b
    Example: stem pipeline run --follow --keep 90d
    """
    from stem.pipeline.lake.stream_to_lake import EVENTS_PER_BATCH, StreamToLake
    from stem.pipeline.spark.session import session as spark

    settings = check_shared(session.settings())
    root = lake or settings.pipeline.lake
    if keep is not None and not _may_drop(root, keep, yes=yes):
        raise click.Abort
    summary = _Summary(is_quiet=once or session.as_json)
    stream = StreamToLake(
        settings=settings,
        root=root,
        follow=not once,
        keep_seconds=keep,
        events_per_batch=events or EVENTS_PER_BATCH,
        on_batch=summary.add,
        on_gap=lambda gap: click.echo(f"warning: {gap}", err=True),
    )
    try:
        stream.run(lambda: spark("stem pipeline run", master=master, remote=remote))
    except KeyboardInterrupt:
        if once:
            raise
    summary.show(session.as_json)


def _may_drop(root: str, keep: float, *, yes: bool) -> bool:
    """Say what will be dropped, and ask before keeping less than a day."""
    from stem.pipeline.lake import lake as lakes
    from stem.pipeline.lake.retention import expiring

    found = lakes.find_lake(root)
    goes = None if found is None else expiring(found, keep)
    lost = (
        "" if goes is None or not goes.days else f"{goes.events:,} events of {goes.days} days before {goes.first_kept}"
    )
    if lost:
        click.echo(f"--keep drops {lost} from the lake.", err=True)
    if keep >= _DAY_SECONDS:
        return True
    return confirm.is_confirmed(f"Keep less than a day of history in {root}, and lose {lost or 'the rest'}?", yes=yes)


class _Summary:
    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._began_at = time.monotonic()
        self._events = 0
        self._batches = 0

    def add(self, batch: "Batch") -> None:
        self._events += batch.events
        self._batches += 1
        if not self._is_quiet:
            click.echo(f"{batch.events:,} events in {batch.seconds:.1f} s")

    def show(self, as_json: bool) -> None:
        seconds = time.monotonic() - self._began_at
        if as_json:
            printing.json({"events": self._events, "batches": self._batches, "seconds": round(seconds, 3)})
        elif self._batches:
            click.echo(f"{self._events:,} events are in the lake now, in {seconds:.1f} s.")
        else:
            click.echo("The lake is up to date.")
