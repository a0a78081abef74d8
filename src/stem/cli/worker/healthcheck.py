"""`stem worker healthcheck`: check the process that a pid file names, for probes and scripts."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stem.cli.support import printing
from stem.cli.support.failure import FAILURE
from stem.cli.support.flags import options, several
from stem.core.errors import StemError

if TYPE_CHECKING:
    from stem.cli.worker.nodes import NodeStatus


class WorkerNotRunning(StemError):
    """The pid file names no process that runs."""


@click.command()
@click.option("--node", envvar="STEM_WORKER_NODE", help="Fill in %n in the names of files.  [env: STEM_WORKER_NODE]")
@click.option(
    "--pidfile", envvar="STEM_WORKER_PIDFILE", required=True, help="The worker's pid file.  [env: STEM_WORKER_PIDFILE]"
)
@click.option(
    "--logfile",
    envvar="STEM_WORKER_LOGFILE",
    help="The worker's log, whose last line is shown.  [env: STEM_WORKER_LOGFILE]",
)
@several.json_output
@options.quiet_traceback
def healthcheck(node: str | None, pidfile: str, logfile: str | None, as_json: bool) -> None:
    """Check that a worker's process runs.

    Exit code 0 if it does; 70 if there is no pid file, it cannot be read, the process has ended, or its number belongs to
    another one now. `stem worker ping` checks that a running worker also answers.

    \b
    Example: stem worker healthcheck --pidfile /run/stem/alpha.pid --json
    """
    from stem.cli.worker.nodes import look_up

    status = look_up(node or "", Path(_expanded(node, pidfile)).absolute())
    log = None if logfile is None else Path(_expanded(node, logfile)).absolute()
    if as_json:
        printing.json(_report(node, status, log))
    elif status.state == "running":
        click.echo(f"{status.message[:-1]}, since {status.since}.")
    else:
        raise WorkerNotRunning(f"{status.message}{_last_log_line(log)}")
    if status.state != "running":
        click.get_current_context().exit(FAILURE)


def _report(node: str | None, status: "NodeStatus", log: Path | None) -> dict[str, object]:
    return {
        "node": node,
        "status": status.state,
        "pid": status.pid,
        "since": status.since,
        "uptimeSeconds": status.uptime_seconds,
        "pidfile": status.pidfile,
        "logfile": None if log is None else str(log),
        "message": status.message,
    }


def _expanded(node: str | None, template: str) -> str:
    """Fill in the placeholders; without a node there are none."""
    from stem.runtime.placeholders import nodes

    return template if node is None else nodes((node,))[0].expand(template)


def _last_log_line(log: Path | None) -> str:
    from stem.runtime.daemon import last_lines

    lines = [] if log is None else last_lines(log, most=1)
    return f" Its log ends: {lines[0]}" if lines else ""
