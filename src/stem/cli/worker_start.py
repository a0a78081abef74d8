"""`stem worker start`: run tasks until a signal."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import click
import msgspec

from stem.cli import times
from stem.cli.bounds import BOUNDS, SIZE
from stem.cli.session import Session, check_flags_hold, in_session_without_app
from stem.cli.show import plain
from stem.core.errors import StemError, UsageError

if TYPE_CHECKING:
    from stem.core.effective import Effective
    from stem.runtime.log import Format
    from stem.worker.manifest import Manifest
    from stem.worker.settings import WorkerSettings
    from stem.worker.supervisor import Worker

log = logging.getLogger("stem.worker")

LISTED_TASKS = 20
IMPORT_SECONDS = 2.0


@click.command()
@click.option(
    "-A",
    "--app",
    "path",
    metavar="MODULE:NAME",
    envvar="STEM_APP",
    help="The app: shop.tasks:app, or shop.py:app.  [env: STEM_APP]",
)
@click.option("-Q", "--queue", "queues", metavar="QUEUE", multiple=True, help="Serve only this queue; may be repeated.")
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Run this many tasks at a time.  [default: one per core]",
)
@click.option("--prefetch", type=click.IntRange(0, 100_000), metavar="N", help="Claim at most N tasks ahead.")
@click.option("-n", "--name", help="The worker's name.  [default: host, pid and a random suffix]")
@click.option("--soft-limit", type=times.DURATION, help="Raise SoftTimeLimitExceeded after this long: 30s, 5m.")
@click.option("--hard-limit", type=times.DURATION, help="Kill a task after this long.")
@click.option("--lease", "lease_seconds", type=times.DURATION, help="How soon others take over if it dies: 10s.")
@click.option("--autoscale", type=BOUNDS, metavar="MIN,MAX", help="As many isolates as the backlog asks for: 2,10.")
@click.option("--max-tasks-per-isolate", type=click.IntRange(1), metavar="N", help="Replace an isolate after N tasks.")
@click.option(
    "--max-memory-per-isolate", type=SIZE, metavar="SIZE", help="Replace an isolate that has grown to this: 512MB."
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
@click.option("--async-concurrency", type=click.IntRange(1, 100_000), metavar="N", help="Coroutines per isolate.")
@click.option(
    "-l",
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error"), case_sensitive=False),
    help="What to log; what tasks print is always logged.  [env: STEM_LOG_LEVEL; default: info]",
)
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    help="Lines of text, or one JSON object per line.  [env: STEM_LOG_FORMAT; default: text]",
)
@click.option(
    "--log-tasks/--no-log-tasks",
    default=None,
    help="Log each task that succeeds; above 50 a second, a sum.  [env: STEM_LOG_TASKS]",
)
@click.option("--reload", is_flag=True, help="Start anew when a *.py file changes; for development.")
@in_session_without_app
def start(
    session: Session,
    path: str | None,
    log_level: str | None,
    log_format: str | None,
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
    log_level = log_level or told.worker.log_level
    is_json = session.as_json or (log_format or told.worker.log_format) == "json"
    form: Format = "json" if is_json else "text"
    # For the processes that import the app.
    os.environ.update(session.environment(), STEM_LOG_LEVEL=log_level, STEM_LOG_FORMAT=form)
    hears_signals = told.worker.install_signal_handlers
    if hears_signals:
        signal.signal(signal.SIGTERM, _leave)
    with LogWriter(log_level, form, worker=settings.name) as writer:
        for warning in told.warnings:
            log.warning("config.doubtful: %s", warning)
        try:
            running = Running(session, path, settings, hears_signals, None if is_json else writer.say)
            exit_code = running.run(is_reloading=reload)
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
    from stem.core.effective import LEAST_LEASE_SECONDS
    from stem.worker.settings import WorkerSettings, check

    chosen = {name: value for name, value in given.items() if value is not None}
    if "autoscale" in chosen:
        least, most = chosen["autoscale"]
        scaling = msgspec.structs.replace(told.autoscale, enabled=True, minimum=least, maximum=most)
        chosen = {"concurrency": least, **chosen, "autoscale": scaling}
    if 0 < chosen.get("lease_seconds", LEAST_LEASE_SECONDS) < LEAST_LEASE_SECONDS:
        raise UsageError(
            f"--lease {chosen['lease_seconds']:g}s is too short: one slow write to the store would give a running task to "
            f"another worker; use {LEAST_LEASE_SECONDS:g}s or more."
        )
    chosen = {**_from_file(told), **chosen}
    return check(WorkerSettings(queues=tuple(dict.fromkeys(queues or told.worker.queues)), **chosen))


def _from_file(told: "Effective") -> dict[str, Any]:
    """What stem.yaml and the environment say of workers, by the names of their settings."""
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
    "grace_seconds",
    "warm_seconds",
    "limiter_fails_open",
    "max_deaths",
    "log_tasks",
)


@dataclass(frozen=True, slots=True)
class Running:
    """One worker, or with `--reload` one after the other."""

    session: Session
    path: str
    settings: "WorkerSettings"
    hears_signals: bool
    say: Callable[[str], None] | None  # to whoever sits at the terminal

    def run(self, *, is_reloading: bool) -> int:
        if not is_reloading:
            return self._run(self._make())
        from stem.cli.reload import run_reloading

        return run_reloading(self._make, self._run, _folders(self.path))

    def _make(self) -> "Worker":
        from stem.worker.supervisor import Worker

        return Worker(path=self.path, settings=self.settings)

    def _run(self, worker: "Worker") -> int:
        try:
            told = self._load(worker)
            check_flags_hold(self.session, told.settings, self.path)
            for doubt in _doubts(told, self.settings, self.path):
                log.warning("app.doubtful: %s", doubt)
            say = self.say
            return worker.run(
                install_signal_handlers=self.hears_signals,
                started=say and (lambda: say(_banner(worker, self.path))),
            )
        finally:
            worker.close()

    def _load(self, worker: "Worker") -> "Manifest":
        """Says so if the app takes long to import: otherwise a worker that imports looks like one that hangs."""
        message = "app.importing %s: still importing after %g s; no task runs before that is done"
        timer = Timer(IMPORT_SECONDS, log.info, (message, self.path, IMPORT_SECONDS))
        timer.daemon = True
        timer.start()
        try:
            return worker.load()
        finally:
            timer.cancel()


def _doubts(told: "Manifest", settings: "WorkerSettings", path: str) -> Iterator[str]:
    """What works, and is hardly meant."""
    for queue in settings.queues:
        if told.tasks and queue not in told.queues:
            known = ", ".join(told.queues)
            yield f"No task of {path} has the queue {queue}, so only calls that name it will arrive; its queues are {known}."


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
        "concurrency": f"{settings.concurrency} at a time, {settings.async_concurrency} coroutines per isolate",
        "pid": os.getpid(),
    }
    lines = [f"stem worker {settings.name}", *(f"  {name:<11}  {value}" for name, value in facts.items())]
    if sys.stderr.isatty():
        lines.append("Ctrl-C stops it.")
    return "\n".join(map(plain, lines))
