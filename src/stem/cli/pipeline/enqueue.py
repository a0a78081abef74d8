"""`stem pipeline enqueue`: enqueue one task per row of a file or table, with Spark."""

import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stem.cli.pipeline import options
from stem.cli.support import printing
from stem.cli.support.stores import Session, check_shared, in_session_without_app
from stem.core.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stem.contracts.staging import Promotion
    from stem.core.settings.app import Settings

_TABLE = "table:"
_LOOK_SECONDS = 0.2


@click.command()
@click.option("--task", help="Task of each row, unless a column `task` names it.")
@click.option(
    "--from", "source", required=True, metavar="PATH|table:NAME", help="A .parquet, .csv or .json file or folder."
)
@click.option(
    "--app", "path", metavar="MODULE:NAME", envvar="STEM_APP", help="Check against this app.  [env: STEM_APP]"
)
@click.option("--queue", help="Queue of rows that name none.")
@click.option(
    "--priority", type=click.IntRange(0, 9), metavar="0-9", help="Priority of rows that name none; 9 goes first."
)
@click.option("--not-before", metavar="MOMENT", help="Due time of rows that name none: 2030-01-31T09:00:00Z.")
@click.option("--headers", metavar="JSON", help="Headers of rows that name none: an object of texts.")
@click.option("--key", metavar="COLUMN", help="Make rows with the same key one task.")
@click.option("--args-column", metavar="COLUMN", help="Read all arguments from one column: JSON, a struct or a map.")
@click.option("--on-bad-row", type=click.Choice(["fail", "reject"]), default="fail", show_default=True)
@click.option("--rejects", metavar="PATH", help="The table of rejected rows and their reasons.")
@click.option("--job", metavar="ID", help="Your id of this write; the same id again adds nothing.")
@options.spark
@in_session_without_app
def enqueue(
    session: Session,
    source: str,
    path: str | None,
    job: str | None,
    master: str | None,
    remote: str | None,
    **given: Any,
) -> None:
    """Enqueue one task for each row.

    Columns are the arguments; `task`, `queue`, `priority`, `notBefore` and `headers` are what they say. All rows become tasks
    at once, or none does.

    \b
    Example: stem pipeline enqueue --task mail.send --from users.parquet
    """
    from stem.pipeline.spark.session import session as spark_session

    options = _options(_settings(session, path), path, given) | {"job": job or f"enqueue-{uuid.uuid4()}"}
    _check_source(source)
    if job is not None and (earlier := _promotion(options)) is not None:
        _show_nothing_added(session, job, earlier.created + earlier.known)
        return
    spark = spark_session("stem pipeline enqueue", master=master, remote=remote)
    frame = _frame(spark, source)
    with _progress(spark, options["job"], is_shown=not session.as_json):
        _write(frame, options)
    _show(session, options)


def _settings(session: Session, path: str | None) -> "Settings":
    """The settings of the app, or of flags and environment."""
    from stem.client.stores import with_absolute_paths

    settings = session.settings() if path is None else session.load_app(path).settings
    return with_absolute_paths(check_shared(settings))


def _options(settings: "Settings", path: str | None, given: dict[str, Any]) -> dict[str, str]:
    named = {
        "url": settings.broker_url,
        "namespace": settings.namespace,
        "app": path,
        "task": given["task"],
        "queue": given["queue"],
        "priority": given["priority"],
        "notBefore": given["not_before"],
        "headers": given["headers"],
        "key": given["key"],
        "argsColumn": given["args_column"],
        "onBadRow": given["on_bad_row"],
        "rejects": given["rejects"],
    }
    return {name: str(value) for name, value in named.items() if value is not None}


def _check_source(source: str) -> None:
    """Check what is possible before Spark starts, which takes seconds."""
    if source.startswith(_TABLE) or "://" in source:
        return
    if not Path(source).exists():
        raise UsageError(f"There is no file {source}; name a .parquet, .csv or .json file or folder, or table:NAME.")
    _format(source)


def _format(source: str) -> str:
    names = [source, *(each.name for each in sorted(Path(source).glob("*")))] if Path(source).is_dir() else [source]
    for name in names:
        kind = Path(name).suffix.lstrip(".").lower()
        if kind in ("parquet", "csv", "json", "jsonl", "ndjson"):
            return "json" if kind.endswith(("json", "jsonl")) else kind
    raise UsageError(f"{source} does not say what it holds; name it .parquet, .csv or .json, or use table:NAME.")


def _frame(spark: "SparkSession", source: str) -> "DataFrame":
    from pyspark.errors import PySparkException

    try:
        if source.startswith(_TABLE):
            return spark.table(source.removeprefix(_TABLE))
        reader = spark.read.format(_format(source))
        if _format(source) == "csv":
            reader = reader.option("header", True).option("inferSchema", True)
        return reader.load(source if "://" in source else os.path.abspath(source))
    except PySparkException as error:
        brief = str(error).strip().partition("\n")[0]
        raise UsageError(f"Spark cannot read {source} ({brief}); check the name and what it holds.") from error


def _write(frame: "DataFrame", options: dict[str, str]) -> None:
    from stem.pipeline.spark.spark_errors import quoted

    try:
        frame.write.format("stem").options(**options).mode("append").save()
    except Exception as error:
        if (found := quoted(error)) is None:
            raise
        raise found from error


def _promotion(options: dict[str, str]) -> "Promotion | None":
    """What the job has added, if it ran before."""
    from stem.client.stores import connect
    from stem.pipeline.sink.write_options import settings_of

    settings = settings_of(options)
    store = connect(settings.broker_url, settings)
    try:
        return store.staging.promoted(options["job"])
    finally:
        store.upkeep.close()


def _show_nothing_added(session: Session, job: str, there: int) -> None:
    if session.as_json:
        printing.json({"job": job, "created": 0, "known": there})
    else:
        click.echo(
            f"Nothing was added: job {job} had enqueued its {there:,} tasks before. Use another --job for new rows."
        )


def _show(session: Session, options: dict[str, str]) -> None:
    promotion = _promotion(options)
    created, known = (promotion.created, promotion.known) if promotion is not None else (0, 0)
    if session.as_json:
        printing.json({"job": options["job"], "created": created, "known": known})
        return
    more = f", {known:,} were there already" if known else ""
    click.echo(f"{created:,} tasks enqueued{more}. Job {options['job']}")


@contextmanager
def _progress(spark: "SparkSession", job: str, *, is_shown: bool) -> Iterator[None]:
    """Show a bar of staged partitions; on Spark Connect, which does not report jobs, only a spinner."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    tracked = getattr(spark, "_jsc", None) is not None
    if not is_shown or not console.is_terminal:
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[partitions]}"),
        TimeElapsedColumn(),
    )
    ended = threading.Event()
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("staging rows", total=None, partitions="")

        def follow() -> None:
            while tracked and not ended.wait(_LOOK_SECONDS):
                done, total = _partitions(spark, job)
                if total:
                    progress.update(bar, completed=done, total=total, partitions=f"{done} of {total} partitions")

        if tracked:
            spark.sparkContext.setJobGroup(job, "stem pipeline enqueue")
        watcher = threading.Thread(target=follow, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join(1.0)


def _partitions(spark: "SparkSession", job: str) -> tuple[int, int]:
    """Finished and total tasks of the stages so far."""
    tracker = spark.sparkContext.statusTracker()
    stages = [
        stage
        for number in tracker.getJobIdsForGroup(job)
        if (info := tracker.getJobInfo(number)) is not None
        for stage in info.stageIds
    ]
    found = [known for stage in stages if (known := tracker.getStageInfo(stage)) is not None]
    return sum(stage.numCompletedTasks for stage in found), sum(stage.numTasks for stage in found)
