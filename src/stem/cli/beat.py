"""`stem beat`: run the scheduler until a signal arrives."""

import logging
import os

import click

from stem.cli.support.printing import plain
from stem.cli.support.stores import Session, in_session
from stem.core.errors import UsageError

log = logging.getLogger("stem.beat")

NO_APP = "stem beat"  # the origin of what a file declares where no app is named


@click.command()
@click.option("-n", "--name", default="", help="Name this scheduler, for commands and the log.")
@click.option(
    "-l", "--log-level", default="info", metavar="LEVEL", help="Log from this level on: debug, info, warning or error."
)
@click.option("--health", metavar="ADDRESS", help="Serve probes and metrics on this host and port.")
@in_session
def beat(session: Session, name: str, log_level: str, health: str | None) -> None:
    """Start a scheduler, which enqueues what is due, until it is stopped.

    Any number may run: each instant is enqueued once. Name the app with --app so that its own schedules are stored and its
    calls are signed and checked. Schedules in stem.yaml are stored as well.

    \b
    Example: stem beat --app shop.tasks:app
    """
    from stem.runtime.configfile import find
    from stem.runtime.log import LogWriter
    from stem.scheduler.process import Scheduler

    path = session.app_path or os.environ.get("STEM_APP") or ""
    if log_level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise UsageError(f"There is no log level {log_level!r}; use debug, info, warning or error.")
    address = None if health is None else _address(health)
    with LogWriter(log_level, "json" if session.as_json else "text", worker=name or "beat") as writer:
        with session.sending_app(path) as app:
            scheduler = Scheduler(app, name=name, origin=path or NO_APP, config_file=find(os.environ), health=address)
            said = plain(f"stem beat {scheduler.name} on {app.store.url} (namespace {app.settings.namespace})")
            exit_code = scheduler.run(started=None if session.as_json else lambda: writer.say(said))
    click.get_current_context().exit(exit_code)


def _address(text: str) -> str:
    from stem.core.settings.control import ADDRESS

    try:
        address: str = ADDRESS.read(text)
    except ValueError as expected:
        raise UsageError(f"--health is {text!r}; use {expected}.") from expected
    return address
