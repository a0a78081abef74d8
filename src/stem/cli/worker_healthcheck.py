"""`stem worker healthcheck`: does the process run that a pid file names? For probes and scripts."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stem.cli import show
from stem.cli.failure import FAILURE
from stem.core.errors import StemError

if TYPE_CHECKING:
    from stem.cli.nodes import Told


class WorkerNotRunning(StemError):
    """The pid file names no process that runs."""


@click.command()
@click.option("--node", envvar="STEM_WORKER_NODE", help="What it is called; fills in %n.  [env: STEM_WORKER_NODE]")
@click.option(
    "--pidfile", envvar="STEM_WORKER_PIDFILE", required=True, help="Its pid file.  [env: STEM_WORKER_PIDFILE]"
)
@click.option(
    "--logfile", envvar="STEM_WORKER_LOGFILE", help="Its log, whose last line tells why.  [env: STEM_WORKER_LOGFILE]"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--traceback", is_flag=True, expose_value=False, help="Show where an error came from.")
def healthcheck(node: str | None, pidfile: str, logfile: str | None, as_json: bool) -> None:
    """Say whether a worker's process runs.

    Exit code 0 if it does; 70 if there is no pid file, or it cannot be read, or the process has ended, or its number
    belongs to another one now. Whether a worker that runs also answers is what `stem worker ping` asks.

    \b
    Example: stem worker healthcheck --node alpha --pidfile /run/stem/alpha.pid --json
    """
    from stem.cli.nodes import look_up

    told = look_up(node or "", Path(_expanded(node, pidfile)).absolute())
    log = None if logfile is None else Path(_expanded(node, logfile)).absolute()
    if as_json:
        show.json(_report(node, told, log))
    elif told.state == "running":
        click.echo(f"{told.message[:-1]}, since {told.since}.")
    else:
        raise WorkerNotRunning(f"{told.message}{_last_words(log)}")
    if told.state != "running":
        click.get_current_context().exit(FAILURE)


def _report(node: str | None, told: "Told", log: Path | None) -> dict[str, object]:
    return {
        "node": node,
        "status": told.state,
        "pid": told.pid,
        "since": told.since,
        "uptimeSeconds": told.uptime_seconds,
        "pidfile": told.pidfile,
        "logfile": None if log is None else str(log),
        "message": told.message,
    }


def _expanded(node: str | None, template: str) -> str:
    """Without a node there is nothing to fill in, and a path is a path."""
    from stem.runtime.placeholders import nodes

    return template if node is None else nodes((node,))[0].expand(template)


def _last_words(log: Path | None) -> str:
    from stem.runtime.daemon import last_lines

    lines = [] if log is None else last_lines(log, most=1)
    return f" Its log ends: {lines[0]}" if lines else ""
