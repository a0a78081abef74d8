"""`stem pipeline bulk`: run one task over a whole table of rows, on Spark."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from stem.cli.pipeline import options
from stem.cli.support import printing, task_ending, times
from stem.cli.support.stores import Session, check_shared, in_session_without_app
from stem.core.errors import UsageError

if TYPE_CHECKING:
    from stem import Stem
    from stem.pipeline.bulk.bulk import Summary


@click.command()
@click.option(
    "--app", "path", metavar="MODULE:NAME", envvar="STEM_APP", required=True, help="The app.  [env: STEM_APP]"
)
@click.option("--task", "name", required=True, help="Task that is called for each row.")
@click.option(
    "--from", "source", metavar="PATH|table:NAME|sql:QUERY", required=True, help="The rows; columns are arguments."
)
@click.option(
    "--format", "format", metavar="NAME", help="Format of the file, if its name does not tell: parquet, csv, json."
)
@click.option("--to", "table", metavar="PATH", required=True, help="The Delta table that keeps the results.")
@click.option("--key", metavar="COLUMN", help="The column that names an item.")
@click.option("--column", "columns", metavar="ARG=COLUMN", multiple=True, help="Column of an argument.")
@click.option("--partitions", type=click.IntRange(min=1), metavar="N", help="Spread the rows over N partitions.")
@click.option("--id", "bulk", help="Your own id of the bulk; the same id again continues it and repeats nothing.")
@click.option("--enqueue", "hands_over", is_flag=True, help="Let a worker run it: the app needs app.bulk(TASK).task().")
@click.option("--wait", type=times.DURATION, help="With --enqueue: wait up to this long for its end.")
@options.spark
@in_session_without_app
def bulk(
    session: Session,
    path: str,
    name: str,
    source: str,
    format: str | None,
    table: str,
    key: str | None,
    columns: tuple[str, ...],
    partitions: int | None,
    bulk: str | None,
    hands_over: bool,
    wait: float | None,
    master: str | None,
    remote: str | None,
) -> None:
    """Run a task over every row, and store the results.

    ItemQueue that fail become dead letters, which `stem dlq replay` sends to ordinary workers.

    \b
    Example: stem pipeline bulk --app shop:app --task thumb --from in --to out
    """
    options: dict[str, Any] = {
        "format": format,
        "key": key,
        "columns": _columns(columns),
        "partitions": partitions,
    }
    with session.load_app(path) as app:
        check_shared(app.settings)
        if hands_over:
            _enqueue(app, session, name, bulk, wait, {"source": source, "to": os.path.abspath(table), **options})
            return
        summary = _run(app, path, name, source, table, bulk, options, master, remote, is_quiet=session.as_json)
    _show(summary, session)


def _run(
    app: "Stem",
    path: str,
    name: str,
    source: str,
    table: str,
    bulk: str | None,
    options: dict[str, Any],
    master: str | None,
    remote: str | None,
    *,
    is_quiet: bool,
) -> "Summary":
    from stem.pipeline.bulk.source import is_counted_quickly, rows
    from stem.pipeline.spark.session import session as spark

    known, format = app.bulk(name), options.pop("format")
    frame = rows(spark("stem pipeline bulk", master=master, remote=remote), source, format)
    total = frame.count() if is_counted_quickly(source, format) else None
    with _progress(total, is_quiet) as tell:
        summary: Summary = known.over(frame, id=bulk, total=total, app=path, **options).to(table, tell=tell)
    return summary


def _enqueue(
    app: "Stem", session: Session, name: str, bulk: str | None, wait: float | None, arguments: dict[str, Any]
) -> None:
    given = {key: value for key, value in arguments.items() if value is not None}
    if f"{name}.bulk" not in app.tasks:
        raise UsageError(
            f"The app has no task {name}.bulk; add app.bulk({name!r}).task() to it, or leave out --enqueue."
        )
    handle = app.enqueue(f"{name}.bulk", given, id=bulk)
    if wait is not None:
        task_ending.print_outcome(handle, wait, as_json=session.as_json)
    elif session.as_json:
        printing.json({"id": handle.id, "created": handle.created})
    else:
        click.echo(handle.id)


@contextmanager
def _progress(total: int | None, is_quiet: bool) -> Iterator[Any]:
    if is_quiet:
        yield lambda _items, _failed: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    shape = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f} items"))
    with Progress(*shape, console=console, transient=True, disable=not console.is_terminal) as bar:
        line = bar.add_task("running", total=total)

        def tell(items: int, failed: int) -> None:
            bar.update(line, completed=items, description=f"{failed:,} failed" if failed else "running")

        yield tell


def _show(summary: "Summary", session: Session) -> None:
    if session.as_json:
        printing.json(summary)
        return
    pace = summary.items / max(summary.seconds, 0.001)
    click.echo(f"{summary.succeeded:,} of {summary.items:,} items succeeded, {pace:,.0f} a second.")
    click.echo(f"Their results are in {summary.table}, as bulk {summary.bulk}.")
    if summary.failed:
        click.echo(f"{summary.failed:,} failed; {summary.buried:,} of them are new dead letters.")
        printing.more(session.command("dlq", "list"))


def _columns(pairs: tuple[str, ...]) -> dict[str, str] | None:
    for pair in pairs:
        if "=" not in pair:
            raise UsageError(f"--column {pair!r} does not name an argument and its column; write it ARG=COLUMN.")
    return dict(pair.split("=", 1) for pair in pairs) or None
