"""`stem worker multi`: the workers of one machine as processes of their own, a name and a pid file each."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stem.cli import show, times
from stem.cli.failure import FAILURE
from stem.cli.launching import process_options, templates
from stem.core.errors import UsageError

if TYPE_CHECKING:
    from stem.cli.nodes import Told
    from stem.runtime.daemon import Plan


class PassingCommand(click.Command):
    """What stands after `--` is not for us but for the command that is started."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.meta["passed_on"] = tuple(args[end + 1 :])
        return super().parse_args(ctx, args[:end])


def _node_options(function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.argument("names", metavar="NODE...", nargs=-1, required=True),
            click.option("--pidfile", default="%n.pid", show_default=True, help="Where its process id is kept."),
            click.option("--json", "as_json", is_flag=True, help="Print JSON."),
            click.option("--traceback", is_flag=True, expose_value=False, help="Show where an error came from."),
        )
    ):
        function = option(function)
    return function


_wait = click.option(
    "--wait", "wait_seconds", type=times.DURATION, default="1s", show_default=True, help="How long it must live."
)
_timeout = click.option(
    "--timeout", "timeout_seconds", type=times.DURATION, default="60s", show_default=True, help="From TERM to KILL."
)


@click.group()
def multi() -> None:
    """Run workers as processes of their own.

    \b
    In names of files:  %n  the node            %h  the host's name
                        %I  its place, from 1   %d  the host's domain     %%  a percent sign

    \b
    Example: stem worker multi start alpha beta --pidfile /run/stem/%n.pid --logfile /var/log/stem/%n.log
             stem worker multi status alpha beta --pidfile /run/stem/%n.pid
    """


@multi.command(cls=PassingCommand)
@_node_options
@process_options
@_wait
def start(names: tuple[str, ...], as_json: bool, wait_seconds: float, **given: Any) -> None:
    """Start each node that does not run; what stands after -- is for its command.

    Exit code 0 if all of them run, 70 if one does not, with the last lines of its log.

    \b
    Example: stem worker multi start alpha beta --env-file /etc/stem/stem.env -- --app shop.tasks:app
    """
    from stem.cli import nodes

    _tell(nodes.start(_plans(names, given), wait_seconds), as_json)


@multi.command()
@_node_options
@_timeout
def stop(names: tuple[str, ...], pidfile: str, as_json: bool, timeout_seconds: float) -> None:
    """Stop each node: TERM, and KILL when the time is up.

    Exit code 0 if none of them runs any more, 70 if one could not be stopped.

    \b
    Example: stem worker multi stop alpha beta --pidfile /run/stem/%n.pid --timeout 5m
    """
    from stem.cli import nodes

    _tell(nodes.stop(_files(names, pidfile), timeout_seconds), as_json)


@multi.command(cls=PassingCommand)
@_node_options
@process_options
@_wait
@_timeout
def restart(names: tuple[str, ...], as_json: bool, wait_seconds: float, timeout_seconds: float, **given: Any) -> None:
    """Stop and start the nodes, one after the other.

    If one does not come back, those after it are left as they are, and the exit code is 70.

    \b
    Example: stem worker multi restart alpha beta --pidfile /run/stem/%n.pid -- --app shop.tasks:app
    """
    from stem.cli import nodes

    _tell(nodes.restart(_plans(names, given), timeout_seconds, wait_seconds), as_json)


@multi.command()
@_node_options
def status(names: tuple[str, ...], pidfile: str, as_json: bool) -> None:
    """Say of each node whether it runs.

    Exit code 0 if all of them do, else 70.

    \b
    Example: stem worker multi status alpha beta --pidfile /run/stem/%n.pid
    """
    from stem.cli import nodes

    told = [nodes.look_up(node, path) for node, path in _files(names, pidfile).items()]
    if as_json:
        show.json({"nodes": told})
    else:
        show.table(("node", "pid", "state", "since", "uptime", ""), map(_row, told), empty="")
    if any(each.state != "running" for each in told):
        click.get_current_context().exit(FAILURE)


def _plans(names: tuple[str, ...], given: dict[str, Any]) -> "dict[str, Plan]":
    from stem.runtime.placeholders import nodes

    typed = templates(given, click.get_current_context().meta["passed_on"])
    plans = {node.name: typed.plan(node) for node in nodes(names)}
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


def _tell(told: "Sequence[Told]", as_json: bool) -> None:
    if as_json:
        show.json({"nodes": told})
    else:
        show.table(("node", "pid", "state", ""), [(t.node, t.pid, t.state, t.message) for t in told], empty="")
        for each in told:
            for line in each.log:
                click.echo(show.plain(f"{each.node}: {line}"))
    if any(each.state in ("failed", "untouched") for each in told):
        click.get_current_context().exit(FAILURE)


def _row(told: "Told") -> tuple[object, ...]:
    if told.uptime_seconds is None:
        return told.node, told.pid, told.state, told.since, None, told.message
    return told.node, told.pid, told.state, told.since, f"{told.uptime_seconds:.0f}s", None
