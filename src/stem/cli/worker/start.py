"""`stem worker start`: run tasks until a signal arrives."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import click
import msgspec

from stem.cli.support.flags.setting_flags import given_flags, with_flags
from stem.cli.support.printing import plain
from stem.cli.support.sizes import BOUNDS
from stem.cli.support.stores import Session, check_flags_hold, in_session_without_app
from stem.core.errors import StemError, UsageError
from stem.core.settings.setting import declared
from stem.core.settings.worker import WorkerProcess, WorkerSettings

if TYPE_CHECKING:
    from stem.runtime.log import Format
    from stem.worker.fork.manifest import Manifest
    from stem.worker.supervisor import Worker

log = logging.getLogger("stem.worker")

_SETTINGS = (*declared(WorkerProcess), *declared(WorkerSettings))

LISTED_TASKS = 20
IMPORT_SECONDS = 2.0


@click.command()
@with_flags(_SETTINGS)
@click.option("--autoscale", type=BOUNDS, metavar="MIN,MAX", help="Scale isolates with the backlog: 2,10.")
@click.option("--reload", is_flag=True, help="Restart when a *.py file changes; for development.")
@in_session_without_app
def start(session: Session, autoscale: tuple[int, int] | None, reload: bool, **given: Any) -> None:
    """Start a worker, and run tasks until it is stopped.

    TERM lets running tasks finish, Ctrl-C gives them five seconds, a second signal kills them. Tasks that have not started or
    were killed go back to their queue.

    \b
    Example: stem worker start --app shop.tasks:app --queue mail --concurrency 4
    """
    from stem.cli.worker.scheduler_process import scheduler_process
    from stem.runtime.configfile import load
    from stem.runtime.log import LogWriter

    config = load(os.environ, flags=_autoscale_flags(autoscale) | given_flags(_SETTINGS, given)).check()
    process = config.process
    if given["app"] == "" or not process.app:
        raise UsageError("A worker needs an app; name it as --app shop.tasks:app, in STEM_APP, or in stem.yaml.")
    settings = _checked(config.worker)
    if session.environment():
        session.settings()  # what is wrong with a flag is better said here than by the app's import
    is_json = session.as_json or process.log_format == "json"
    form: Format = "json" if is_json else "text"
    # For the processes that import the app.
    os.environ.update(session.environment(), STEM_LOG_LEVEL=process.log_level, STEM_LOG_FORMAT=form)
    installs_signal_handlers = process.install_signal_handlers
    if installs_signal_handlers:
        signal.signal(signal.SIGTERM, _leave)
    with LogWriter(process.log_level, form, worker=settings.name) as writer:
        for warning in config.warnings:
            log.warning("config.doubtful: %s", warning)
        try:
            running = WorkerRun(
                session, process.app, settings, installs_signal_handlers, None if is_json else writer.say
            )
            with scheduler_process(process.app, process.log_level) if process.beat else nullcontext():
                exit_code = running.run(is_reloading=reload)
        except StemError as error:
            if not is_json:
                raise  # the command line prints it as one sentence
            log.error("worker.refused: %s", error)
            exit_code = error.exit_code
    click.get_current_context().exit(exit_code)


def _leave(_number: int, _frame: object) -> None:
    """Exit on TERM while nothing is claimed: during a long import, or while `--reload` waits for a change."""
    sys.exit(0)


def _autoscale_flags(bounds: tuple[int, int] | None) -> dict[str, tuple[str, Any]]:
    """Return the four settings that the flag stands for; --concurrency overrides the last."""
    if bounds is None:
        return {}
    least, most = bounds
    values = {"enabled": True, "min": least, "max": most}
    flags = {f"autoscale.{name}": (f"--autoscale: autoscale.{name}", value) for name, value in values.items()}
    return {**flags, "worker.concurrency": ("--autoscale", max(1, least))}


def _checked(settings: WorkerSettings) -> WorkerSettings:
    """Check the settings once, so that a worker that reloads keeps its name."""
    from stem.worker.settings import check

    if settings.autoscale.enabled and not settings.concurrency:
        settings = msgspec.structs.replace(settings, concurrency=settings.autoscale.minimum)
    return check(settings)


@dataclass(frozen=True, slots=True)
class WorkerRun:
    """Runs one worker, or with `--reload` one after the other."""

    session: Session
    path: str
    settings: WorkerSettings
    installs_signal_handlers: bool
    say: Callable[[str], None] | None  # prints to the terminal

    def run(self, *, is_reloading: bool) -> int:
        if not is_reloading:
            return self._run(self._make())
        from stem.cli.worker.reload import run_reloading

        return run_reloading(self._make, self._run, _folders(self.path))

    def _make(self) -> "Worker":
        from stem.worker.supervisor import Worker

        return Worker(path=self.path, settings=self.settings)

    def _run(self, worker: "Worker") -> int:
        try:
            manifest = self._load(worker)
            check_flags_hold(self.session, manifest.settings, self.path)
            for doubt in _doubts(manifest, self.settings, self.path):
                log.warning("app.doubtful: %s", doubt)
            say = self.say
            return worker.run(
                install_signal_handlers=self.installs_signal_handlers,
                started=say and (lambda: say(_banner(worker, self.path))),
            )
        finally:
            worker.close()

    def _load(self, worker: "Worker") -> "Manifest":
        """Import the app, and log if that takes long: otherwise the worker seems to hang."""
        message = "app.importing %s: still importing after %g s; no task runs before that is done"
        timer = Timer(IMPORT_SECONDS, log.info, (message, self.path, IMPORT_SECONDS))
        timer.daemon = True
        timer.start()
        try:
            return worker.load()
        finally:
            timer.cancel()


def _doubts(manifest: "Manifest", settings: WorkerSettings, path: str) -> Iterator[str]:
    """Yield what works and is hardly meant."""
    for queue in settings.queues:
        if manifest.tasks and queue not in manifest.queues:
            known = ", ".join(manifest.queues)
            yield f"No task of {path} has the queue {queue}, so only calls that name it will arrive; its queues are {known}."


def _folders(path: str) -> list[Path]:
    """Return the folders that are likely to hold the app's files: this one, and that of the file it is named by."""
    file = Path(path.partition(":")[0])
    return list({Path.cwd(), file.absolute().parent} if file.suffix == ".py" else {Path.cwd()})


def _listed(names: list[str]) -> str:
    more = f", and {len(names) - LISTED_TASKS} more" if len(names) > LISTED_TASKS else ""
    return ", ".join(sorted(names)[:LISTED_TASKS]) + more or "none"


def _banner(worker: "Worker", path: str) -> str:
    from stem.client.stores import with_absolute_paths
    from stem.core.settings.app import masked

    manifest, settings = worker.load(), worker.settings
    facts = {
        "app": path,
        "store": f"{masked(with_absolute_paths(manifest.settings).broker_url)} (namespace {manifest.settings.namespace})",
        "queues": ", ".join(settings.queues or manifest.queues),
        "tasks": _listed([task.name for task in manifest.tasks]),
        "concurrency": f"{settings.concurrency} at a time, {settings.async_concurrency} coroutines per isolate",
        "pid": os.getpid(),
    }
    lines = [f"stem worker {settings.name}", *(f"  {name:<11}  {value}" for name, value in facts.items())]
    if sys.stderr.isatty():
        lines.append("Ctrl-C stops it.")
    return "\n".join(map(plain, lines))
