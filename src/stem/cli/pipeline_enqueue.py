"""`stem pipeline enqueue`: every row of a file or table becomes a task, through Spark."""

import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stem.cli import pipeline_options, show
from stem.cli.session import Session, check_flags_hold, check_shared, in_session_without_app
from stem.core.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stem.contracts.staging import Promotion
    from stem.core.config import Settings

_TABLE = "table:"
_LOOK_SECONDS = 0.2


@click.command()
@click.option("--task", help="The task of each row; or a column `task`.")
@click.option(
    "--from", "source", required=True, metavar="PATH|table:NAME", help="A .parquet, .csv or .json file or folder."
)
@click.option(
    "--app", "path", metavar="MODULE:NAME", envvar="STEM_APP", help="Check against this app.  [env: STEM_APP]"
)
@click.option("--queue", help="For rows that name none.")
@click.option("--priority", type=click.IntRange(0, 9), metavar="0-9", help="For rows that name none; 9 goes first.")
@click.option("--not-before", metavar="MOMENT", help="For rows that name none: 2030-01-31T09:00:00Z.")
@click.option("--headers", metavar="JSON", help="For rows that name none: an object of texts.")
@click.option("--key", metavar="COLUMN", help="Rows of the same key are one task.")
@click.option("--args-column", metavar="COLUMN", help="All arguments in one column: JSON, a struct or a map.")
@click.option("--on-bad-row", type=click.Choice(["fail", "reject"]), default="fail", show_default=True)
@click.option("--rejects", metavar="PATH", help="The table of rejected rows and their reasons.")
@click.option("--job", metavar="ID", help="Your id of this write; the same id again adds nothing.")
@pipeline_options.spark
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
    Example: stem pipeline enqueue --task mail.send --from users.parquet --app shop:app
    """
    from stem.pipeline.session import session as spark_session

    options = _options(_settings(session, path), path, given) | {"job": job or f"enqueue-{uuid.uuid4()}"}
    _check_source(source)
    if job is not None and (earlier := _promotion(options)) is not None:
        _tell_nothing_added(session, job, earlier.created + earlier.known)
        return
    spark = spark_session("stem pipeline enqueue", master=master, remote=remote)
    frame = _frame(spark, source)
    with _progress(spark, options["job"], is_shown=not session.as_json):
        _write(frame, options)
    _tell(session, options)


def _settings(session: Session, path: str | None) -> "Settings":
    """Of the app, or of flags and environment: Spark's own processes may have been started in another."""
    from stem.backends import placed

    if path is None:
        return placed(check_shared(session.settings()))
    from stem.client.loading import load

    os.environ.update(session.environment())  # before the import: that is when an app reads its settings
    settings = load(path).settings
    check_flags_hold(session, settings, path)
    return placed(check_shared(settings))


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
    """What can be told before Spark starts, which takes seconds."""
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
    from stem.pipeline.mapping import told

    try:
        frame.write.format("stem").options(**options).mode("append").save()
    except Exception as error:
        said = told(error)
        if said is None:
            raise
        raise said from error


def _promotion(options: dict[str, str]) -> "Promotion | None":
    """What the job has added, if it was run before."""
    from stem.backends import connect
    from stem.pipeline.mapping import settings_of

    settings = settings_of(options)
    store = connect(settings.broker_url, settings)
    try:
        return store.staging.promoted(options["job"])
    finally:
        store.upkeep.close()


def _tell_nothing_added(session: Session, job: str, there: int) -> None:
    if session.as_json:
        show.json({"job": job, "created": 0, "known": there})
    else:
        click.echo(
            f"Nothing was added: job {job} had enqueued its {there:,} tasks before. Use another --job for new rows."
        )


def _tell(session: Session, options: dict[str, str]) -> None:
    promotion = _promotion(options)
    created, known = (promotion.created, promotion.known) if promotion is not None else (0, 0)
    if session.as_json:
        show.json({"job": options["job"], "created": created, "known": known})
        return
    more = f", {known:,} were there already" if known else ""
    click.echo(f"{created:,} tasks enqueued{more}. Job {options['job']}")


@contextmanager
def _progress(spark: "SparkSession", job: str, *, is_shown: bool) -> Iterator[None]:
    """A bar of the partitions that are staged. Spark Connect keeps its jobs to itself: there it only says that it works."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    tracked = getattr(spark, "_jsc", None) is not None
    if not is_shown or not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"), TimeElapsedColumn())
    ended = threading.Event()
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("staging rows", total=None, told="")

        def follow() -> None:
            while tracked and not ended.wait(_LOOK_SECONDS):
                done, total = _partitions(spark, job)
                if total:
                    progress.update(bar, completed=done, total=total, told=f"{done} of {total} partitions")

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
    """Done, and all, of the stages that Spark knows of by now."""
    tracker = spark.sparkContext.statusTracker()
    stages = [
        stage
        for number in tracker.getJobIdsForGroup(job)
        if (info := tracker.getJobInfo(number)) is not None
        for stage in info.stageIds
    ]
    found = [known for stage in stages if (known := tracker.getStageInfo(stage)) is not None]
    return sum(stage.numCompletedTasks for stage in found), sum(stage.numTasks for stage in found)
