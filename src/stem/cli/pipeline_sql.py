"""`stem pipeline sql`: a question to the lake, in SQL."""

import csv
import sys
from collections.abc import Sequence
from typing import Any

import click

from stem.cli import pipeline_options, show
from stem.cli.session import Session, in_session


@click.command()
@click.argument("query")
@click.option("--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
@click.option("--limit", type=click.IntRange(1, 1_000_000), metavar="N", default=1000, show_default=True)
@pipeline_options.lake
@pipeline_options.spark
@in_session
def sql(
    session: Session, query: str, form: str, limit: int, lake: str | None, master: str | None, remote: str | None
) -> None:
    """Ask the lake in Spark SQL.

    The views are events, attempts, rollups (a row a minute, task, queue, worker and tenant, with percentiles) and partials
    (the rollups as they were written).

    \b
    Example: stem pipeline sql "select name, outcome, count(*) from attempts group by all"
    """
    from stem.pipeline import lake as lakes
    from stem.pipeline.ask import ask
    from stem.pipeline.session import session as spark

    opened = lakes.opened(lake or session.settings().pipeline.lake)
    columns, rows = ask(opened, spark("stem pipeline sql", master=master, remote=remote), query, limit=limit)
    is_cut, rows = len(rows) > limit, rows[:limit]
    match "json" if session.as_json else form:
        case "json":
            show.json([dict(zip(columns, row, strict=True)) for row in rows])
        case "csv":
            _write_csv(columns, rows)
        case _:
            show.table(columns, rows, empty="No row.")
    if is_cut:
        click.echo(f"There are more than {limit:,} rows; ask for more with --limit.", err=True)


def _write_csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
