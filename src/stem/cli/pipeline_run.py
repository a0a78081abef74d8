"""`stem pipeline run`: events into the lake, once up to now, or for as long as they come."""

import time
from typing import TYPE_CHECKING

import click

from stem.cli import consent, pipeline_options, show
from stem.cli.session import Session, check_shared, in_session

if TYPE_CHECKING:
    from stem.pipeline.flow import Batch

_DAY_SECONDS = 86400.0


@click.command()
@click.option("--once/--follow", "once", default=True, help="Up to now, or until it is stopped.  [default: --once]")
@click.option("--keep", type=pipeline_options.KeepType(), help="Drop whole days older than this: 90d. Needs a unit.")
@click.option("--yes", is_flag=True, help="Keep less than a day without asking.")
@click.option(
    "--batch", "events", type=click.IntRange(1_000, 10_000_000), metavar="N", help="Read at most N events at a time."
)
@pipeline_options.lake
@pipeline_options.spark
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
    """Write what the fleet did into the lake.

    Every event is there once, whatever is killed and started again. One run at a time fills a lake.

    \b
    Example: stem pipeline run --follow --keep 90d
    """
    from stem.pipeline.flow import EVENTS_A_BATCH, Flow
    from stem.pipeline.session import session as spark

    settings = check_shared(session.settings())
    root = lake or settings.pipeline.lake
    if keep is not None and not _may_drop(root, keep, yes=yes):
        raise click.Abort
    telling = _Telling(is_quiet=once or session.as_json)
    flow = Flow(
        settings=settings,
        root=root,
        follow=not once,
        keep_seconds=keep,
        events_a_batch=events or EVENTS_A_BATCH,
        told=telling.hear,
        warned=lambda gap: click.echo(f"warning: {gap}", err=True),
    )
    try:
        flow.run(lambda: spark("stem pipeline run", master=master, remote=remote))
    except KeyboardInterrupt:
        if once:
            raise
    telling.conclude(session.as_json)


def _may_drop(root: str, keep: float, *, yes: bool) -> bool:
    """Say what will go before any of it does; less than a day is what nobody means by chance."""
    from stem.pipeline import lake as lakes
    from stem.pipeline.retention import going

    found = lakes.found(root)
    goes = None if found is None else going(found, keep)
    lost = (
        "" if goes is None or not goes.days else f"{goes.events:,} events of {goes.days} days before {goes.first_kept}"
    )
    if lost:
        click.echo(f"--keep drops {lost} from the lake.", err=True)
    if keep >= _DAY_SECONDS:
        return True
    return consent.is_given(f"Keep less than a day of history in {root}, and lose {lost or 'the rest'}?", yes=yes)


class _Telling:
    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._began_at = time.monotonic()
        self._events = 0
        self._batches = 0

    def hear(self, batch: "Batch") -> None:
        self._events += batch.events
        self._batches += 1
        if not self._is_quiet:
            click.echo(f"{batch.events:,} events in {batch.seconds:.1f} s")

    def conclude(self, as_json: bool) -> None:
        seconds = time.monotonic() - self._began_at
        if as_json:
            show.json({"events": self._events, "batches": self._batches, "seconds": round(seconds, 3)})
        elif self._batches:
            click.echo(f"{self._events:,} events are in the lake now, in {seconds:.1f} s.")
        else:
            click.echo("The lake has all there is; no new event was found.")
