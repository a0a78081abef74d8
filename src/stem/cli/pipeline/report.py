"""`stem pipeline report`: throughput, latency and failures of a period, compared with the one before."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stem.cli.pipeline import options
from stem.cli.support import printing, times
from stem.cli.support.stores import Session, in_session
from stem.core.errors import UsageError
from stem.core.text.escaping import plain_json

if TYPE_CHECKING:
    from stem.pipeline.report.slo import Attainment


@click.command()
@click.option("--since", type=times.DURATION, default=86400.0, show_default="24h", help="How far back: 24h, 7d.")
@click.option("--task", metavar="NAME", help="Only this task.")
@click.option(
    "--slo", "slos", multiple=True, metavar="OBJECTIVE", help="'TASK:p95_wait<5s', 'TASK:success>99.5%'; * for all."
)
@click.option("--format", "form", type=click.Choice(["text", "json", "html"]), default="text", show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write it to this file.")
@options.lake
@options.spark
@in_session
def report(
    session: Session,
    since: float,
    task: str | None,
    slos: tuple[str, ...],
    form: str,
    output: Path | None,
    lake: str | None,
    master: str | None,
    remote: str | None,
) -> None:
    """Report throughput, latency, failures, cost and utilisation from the lake.

    Each figure is compared with the period before. The exit code is 3 if an objective was missed.

    \b
    Example: stem pipeline report --since 7d --format html --output report.html
    """
    import time

    from stem.pipeline.lake import lake as lakes
    from stem.pipeline.report.report import period
    from stem.pipeline.report.report import report as make
    from stem.pipeline.report.slo import objective
    from stem.pipeline.spark.session import session as spark

    objectives = [objective(text) for text in slos]
    opened = lakes.open_lake(lake or session.settings().pipeline.lake)
    start, end = period(since, time.time())
    made = make(
        opened,
        spark("stem pipeline report", master=master, remote=remote),
        since=start,
        until=end,
        task=task,
        objectives=objectives,
    )
    if session.as_json or form == "json":
        text = _json(made)
    elif form == "html":
        from stem.pipeline.report.html import html

        text = html(made)
    else:
        from stem.pipeline.report.text import text as as_text

        text = as_text(made) + "\n"
    _write(text, output)
    _check(made.objectives)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text)
    except OSError as error:
        raise UsageError(f"{output} cannot be written ({error.strerror}); name another file with --output.") from error
    click.echo(printing.plain(f"The report is in {output}."))


def _check(objectives: "Sequence[Attainment]") -> None:
    """Raises ObjectiveMissed."""
    from stem.pipeline.report.formatting import measured
    from stem.pipeline.report.slo import ObjectiveMissed

    for each in objectives:
        if each.is_met is None:
            click.echo(f"warning: nothing was measured for {each.objective!r}; check the name of its task.", err=True)
    missed = [f"{each.objective!r} ({measured(each)})" for each in objectives if each.is_met is False]
    if missed:
        raise ObjectiveMissed(f"{len(missed)} of {len(objectives)} objectives missed: {', '.join(missed)}.")


def _json(made: object) -> str:
    import msgspec

    return plain_json(msgspec.json.format(msgspec.json.encode(made), indent=2).decode()) + "\n"
