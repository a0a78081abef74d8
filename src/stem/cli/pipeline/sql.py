"""`stem pipeline sql`: query the lake in SQL."""

import csv
import sys
from collections.abc import Sequence
from typing import Any

import click

from stem.cli.pipeline import options
from stem.cli.support import printing
from stem.cli.support.stores import Session, in_session


@click.command()
@click.argument("query")
@click.option("--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
@click.option("--limit", type=click.IntRange(1, 1_000_000), metavar="N", default=1000, show_default=True)
@options.lake
@options.spark
@in_session
def sql(
    session: Session, query: str, form: str, limit: int, lake: str | None, master: str | None, remote: str | None
) -> None:
    """Run a query of Spark SQL on the lake.

    The views are events, attempts, rollups (one row per minute, task, queue, worker and tenant, with percentiles) and
    partials (the rollups as written).

    \b
    Example: stem pipeline sql "select name, count(*) from attempts group by all"
    """
    from stem.pipeline.lake import lake as lakes
    from stem.pipeline.lake.sql import run_query
    from stem.pipeline.spark.session import session as spark

    opened = lakes.open_lake(lake or session.settings().pipeline.lake)
    columns, rows = run_query(opened, spark("stem pipeline sql", master=master, remote=remote), query, limit=limit)
    is_cut, rows = len(rows) > limit, rows[:limit]
    match "json" if session.as_json else form:
        case "json":
            printing.json([dict(zip(columns, row, strict=True)) for row in rows])
        case "csv":
            _write_csv(columns, rows)
        case _:
            printing.table(columns, rows, empty="No row.")
    if is_cut:
        click.echo(f"There are more than {limit:,} rows; ask for more with --limit.", err=True)


def _write_csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
