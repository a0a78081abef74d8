"""`stem worker multi`: the workers of one machine as processes of their own, a name and a pid file each."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stem.cli.support import printing, times
from stem.cli.support.failure import FAILURE
from stem.cli.support.flags import options, several
from stem.cli.worker.launch import LaunchTemplate, process_options
from stem.core.errors import UsageError

if TYPE_CHECKING:
    from stem.cli.worker.nodes import NodeStatus
    from stem.runtime.daemon import LaunchPlan


class PassingCommand(click.Command):
    """Passes the words after `--` on to the command that it starts."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.meta["passed_on"] = tuple(args[end + 1 :])
        return super().parse_args(ctx, args[:end])


_node_options = several.with_options(
    click.argument("names", metavar="NODE...", nargs=-1, required=True),
    click.option("--pidfile", default="%n.pid", show_default=True, help="Keep the process id in this file."),
    several.json_output,
    options.quiet_traceback,
)
_wait = click.option(
    "--wait",
    "wait_seconds",
    type=times.DURATION,
    default="1s",
    show_default=True,
    help="Count as started after this long.",
)
_timeout = click.option(
    "--timeout",
    "timeout_seconds",
    type=times.DURATION,
    default="60s",
    show_default=True,
    help="Send KILL this long after TERM.",
)


@click.group()
def multi() -> None:
    """Run workers as background processes.

    \b
    In names of files:
    %n  the node            %h  the host's name
    %I  its place, from 1   %d  the host's domain   %%  a percent sign

    \b
    Example: stem worker multi start alpha beta --pidfile /run/stem/%n.pid
    """


@multi.command(cls=PassingCommand)
@_node_options
@process_options
@_wait
def start(names: tuple[str, ...], as_json: bool, wait_seconds: float, **given: Any) -> None:
    """Start each node that does not run; words after -- go to its command.

    Exit code 0 if all of them run, 70 if one does not, with the last lines of its log.

    \b
    Example: stem worker multi start alpha beta -- --app shop.tasks:app
    """
    from stem.cli.worker import nodes

    _print(nodes.start(_plans(names, given), wait_seconds), as_json)


@multi.command()
@_node_options
@_timeout
def stop(names: tuple[str, ...], pidfile: str, as_json: bool, timeout_seconds: float) -> None:
    """Stop each node: TERM, and KILL when the time is up.

    Exit code 0 if all have stopped, 70 if one could not be stopped.

    \b
    Example: stem worker multi stop alpha beta --timeout 5m
    """
    from stem.cli.worker import nodes

    _print(nodes.stop(_files(names, pidfile), timeout_seconds), as_json)


@multi.command(cls=PassingCommand)
@_node_options
@process_options
@_wait
@_timeout
def restart(names: tuple[str, ...], as_json: bool, wait_seconds: float, timeout_seconds: float, **given: Any) -> None:
    """Stop and start the nodes, one after the other.

    If one does not come back, the rest keep running and the exit code is 70.

    \b
    Example: stem worker multi restart alpha beta -- --app shop.tasks:app
    """
    from stem.cli.worker import nodes

    _print(nodes.restart(_plans(names, given), timeout_seconds, wait_seconds), as_json)


@multi.command()
@_node_options
def status(names: tuple[str, ...], pidfile: str, as_json: bool) -> None:
    """Show which nodes run.

    Exit code 0 if all of them do, else 70.

    \b
    Example: stem worker multi status alpha beta --pidfile /run/stem/%n.pid
    """
    from stem.cli.worker import nodes

    statuses = [nodes.look_up(node, path) for node, path in _files(names, pidfile).items()]
    if as_json:
        printing.json({"nodes": statuses})
    else:
        printing.table(("node", "pid", "state", "since", "uptime", ""), map(_row, statuses), empty="")
    if any(status.state != "running" for status in statuses):
        click.get_current_context().exit(FAILURE)


def _plans(names: tuple[str, ...], given: dict[str, Any]) -> "dict[str, LaunchPlan]":
    from stem.runtime.placeholders import nodes

    template = LaunchTemplate.from_flags(given, click.get_current_context().meta["passed_on"])
    plans = {node.name: template.plan(node) for node in nodes(names)}
    _check_apart([plan.pidfile for plan in plans.values()])
    return plans


def _files(names: tuple[str, ...], template: str) -> dict[str, Path]:
    from stem.runtime.placeholders import nodes

    files = {node.name: Path(node.expand(template)).absolute() for node in nodes(names)}
    _check_apart(list(files.values()))
    return files


def _check_apart(files: Sequence[Path]) -> None:
    if len(set(files)) < len(files):
        raise UsageError("The nodes would share a pid file; put %n into --pidfile.")


def _print(statuses: "Sequence[NodeStatus]", as_json: bool) -> None:
    if as_json:
        printing.json({"nodes": statuses})
    else:
        printing.table(("node", "pid", "state", ""), [(s.node, s.pid, s.state, s.message) for s in statuses], empty="")
        for status in statuses:
            for line in status.log:
                click.echo(printing.plain(f"{status.node}: {line}"))
    if any(status.state in ("failed", "untouched") for status in statuses):
        click.get_current_context().exit(FAILURE)


def _row(status: "NodeStatus") -> tuple[object, ...]:
    if status.uptime_seconds is None:
        return status.node, status.pid, status.state, status.since, None, status.message
    return status.node, status.pid, status.state, status.since, f"{status.uptime_seconds:.0f}s", None
