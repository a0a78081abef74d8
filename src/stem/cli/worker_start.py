"""`stem worker start`: run tasks until a signal."""

import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stem.cli import times
from stem.cli.bounds import BOUNDS, SIZE
from stem.cli.session import Session, check_flags_hold, in_session
from stem.cli.show import plain
from stem.core.errors import StemError, UsageError

if TYPE_CHECKING:
    from stem.core.effective import Effective
    from stem.runtime.log import Format
    from stem.worker.settings import WorkerSettings
    from stem.worker.supervisor import Worker

log = logging.getLogger("stem.worker")

LISTED_TASKS = 20


@click.command()
@click.option(
    "--app",
    "path",
    metavar="MODULE:NAME",
    envvar="STEM_APP",
    show_envvar=True,
    help="The app: shop.tasks:app, or shop.py:app.",
)
@click.option("--queue", "queues", metavar="QUEUE", multiple=True, help="Only this queue; may be given again.")
@click.option(
    "--concurrency", type=click.IntRange(1, 1000), metavar="N", help="Tasks at a time.  [default: one a core]"
)
@click.option("--prefetch", type=click.IntRange(0, 100_000), metavar="N", help="Most to claim ahead of running.")
@click.option("--name", help="What it is called.  [default: host, process and chance]")
@click.option("--soft-limit", type=times.DURATION, help="Tell a task so long after its start: 30s, 5m.")
@click.option("--hard-limit", type=times.DURATION, help="End a task so long after its start.")
@click.option("--lease", "lease_seconds", type=times.DURATION, help="How soon others take over if it dies: 10s.")
@click.option("--autoscale", type=BOUNDS, metavar="MIN,MAX", help="As many isolates as the backlog asks for: 2,10.")
@click.option(
    "--max-tasks-per-isolate", type=click.IntRange(1), metavar="N", help="A fresh isolate after so many tasks."
)
@click.option(
    "--max-memory-per-isolate", type=SIZE, metavar="SIZE", help="A fresh one when it has grown to so much: 512MB."
)
@click.option("--warm-timeout", "warm_seconds", type=times.DURATION, help="How long TERM waits for tasks to end: 10m.")
@click.option("--grace", "grace_seconds", type=times.DURATION, help="From telling a task to stop to killing it: 5s.")
@click.option(
    "--inline-concurrency",
    "lane_concurrency",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Inline tasks (isolate=False) at a time.  [default: 8]",
)
@click.option("--async-concurrency", type=click.IntRange(1, 100_000), metavar="N", help="Coroutines an isolate.")
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error"), case_sensitive=False),
    default="info",
    envvar="STEM_LOG_LEVEL",
    show_envvar=True,
    help="How much to say; what tasks print is always told.",
)
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    envvar="STEM_LOG_FORMAT",
    show_envvar=True,
    help="Lines, or a JSON object each.",
)
@click.option("--reload", is_flag=True, help="Start anew when a *.py file changes; for development.")
@in_session
def start(
    session: Session,
    path: str | None,
    log_level: str,
    log_format: str,
    reload: bool,
    queues: tuple[str, ...],
    **given: Any,
) -> None:
    """Start a worker, and run tasks until it is stopped.

    TERM lets running tasks end, Ctrl-C gives them five seconds, a second signal is harder. What has not begun goes back to its
    queue, and so does what is cut off.

    \b
    Example: stem worker start --app shop.tasks:app --queue mail --concurrency 4
    """
    from stem.runtime.configfile import load
    from stem.runtime.log import LogWriter

    told = load(os.environ).check()
    path = told.worker.app if path is None else path
    if not path:
        raise UsageError("A worker needs an app; name it as --app shop.tasks:app, in STEM_APP, or in stem.yaml.")
    settings = _settings(queues, given, told)
    if session.environment():
        session.settings()  # what is wrong with a flag is better said here than by the app's import
    is_json = session.as_json or log_format == "json"
    form: Format = "json" if is_json else "text"
    # For the processes that import the app.
    os.environ.update(session.environment(), STEM_LOG_LEVEL=log_level, STEM_LOG_FORMAT=form)
    signal.signal(signal.SIGTERM, _leave)
    with LogWriter(log_level, form) as writer:
        try:
            exit_code = _run(session, path, settings, is_reloading=reload, say=None if is_json else writer.say)
        except StemError as error:
            if not is_json:
                raise  # it is told in a sentence
            log.error("worker.refused: %s", error)
            exit_code = error.exit_code
    click.get_current_context().exit(exit_code)


def _leave(_number: int, _frame: object) -> None:
    """While nothing is claimed yet: an app that takes long to import, or one that waits for a change."""
    sys.exit(0)


def _settings(queues: tuple[str, ...], given: dict[str, Any], told: "Effective") -> "WorkerSettings":
    """Flags before the file. Named once, so that a worker that reloads keeps its name."""
    from stem.core.autoscale import Autoscale
    from stem.worker.settings import WorkerSettings, check

    chosen = {name: value for name, value in given.items() if value is not None}
    if "autoscale" in chosen:
        least, most = chosen["autoscale"]
        chosen = {"concurrency": least, **chosen, "autoscale": Autoscale(enabled=True, minimum=least, maximum=most)}
    chosen = {**_from_file(told), **chosen}
    return check(WorkerSettings(queues=tuple(dict.fromkeys(queues or told.worker.queues)), **chosen))


def _from_file(told: "Effective") -> dict[str, Any]:
    """What stem.yaml says of workers, by the names of their settings."""
    worker = told.worker
    said: dict[str, Any] = {name: getattr(worker, name) for name in _FROM_FILE}
    if told.autoscale.enabled:
        said |= {"concurrency": worker.concurrency or told.autoscale.minimum, "autoscale": told.autoscale}
    return {name: value for name, value in said.items() if value is not None}


_FROM_FILE = (
    "name",
    "concurrency",
    "prefetch",
    "async_concurrency",
    "soft_limit",
    "hard_limit",
    "lease_seconds",
    "heartbeat_seconds",
    "max_tasks_per_isolate",
    "max_memory_per_isolate",
)


def _run(
    session: Session, path: str, settings: "WorkerSettings", *, is_reloading: bool, say: Callable[[str], None] | None
) -> int:
    from stem.worker.supervisor import Worker

    def make() -> Worker:
        return Worker(path=path, settings=settings)

    def run(worker: Worker) -> int:
        try:
            check_flags_hold(session, worker.load().settings, path)
            return worker.run(started=say and (lambda: say(_banner(worker, path))))
        finally:
            worker.close()

    if not is_reloading:
        return run(make())
    from stem.cli.reload import run_reloading

    return run_reloading(make, run, _folders(path))


def _folders(path: str) -> list[Path]:
    """Where the app's files are likely to be: here, and with the file that it is named by."""
    file = Path(path.partition(":")[0])
    return list({Path.cwd(), file.absolute().parent} if file.suffix == ".py" else {Path.cwd()})


def _listed(names: list[str]) -> str:
    more = f", and {len(names) - LISTED_TASKS} more" if len(names) > LISTED_TASKS else ""
    return ", ".join(sorted(names)[:LISTED_TASKS]) + more or "none"


def _banner(worker: "Worker", path: str) -> str:
    from stem.backends import placed
    from stem.core.config import masked

    told, settings = worker.load(), worker.settings
    facts = {
        "app": path,
        "store": f"{masked(placed(told.settings).broker_url)} (namespace {told.settings.namespace})",
        "queues": ", ".join(settings.queues or told.queues),
        "tasks": _listed([task.name for task in told.tasks]),
        "concurrency": f"{settings.concurrency} at a time, coroutines {settings.async_concurrency} an isolate",
        "pid": os.getpid(),
    }
    lines = [f"stem worker {settings.name}", *(f"  {name:<11}  {value}" for name, value in facts.items())]
    if sys.stderr.isatty():
        lines.append("Ctrl-C stops it.")
    return "\n".join(map(plain, lines))
