"""`stem worker ping` and the like: a command for each registered control command; the same under `stem worker control`."""

from functools import cache
from typing import Any

import click
import msgspec

from stem.cli.worker.control_options import ControlFlags, control_flags
from stem.cli.worker.control_output import show
from stem.cli.worker.control_parameters import parameters, read_options
from stem.control.command_session import CommandResult
from stem.control.registry import ControlCommand, all_commands, find_command_alone
from stem.core.errors import UsageError


def control_names() -> list[str]:
    """The names of the command line, aliases among them."""
    return [name for entry in all_commands() for name in entry.cli_names]


def control_command(name: str) -> click.Command | None:
    entry = find_command_alone(name)
    return _command(entry) if entry is not None and name in entry.cli_names else None


def __getattr__(name: str) -> click.Command:
    """A command by its name, for the groups that have one of them as their own."""
    command = None if name.startswith("_") else control_command(name)
    if command is None:
        raise AttributeError(name)
    return command


@cache
def _command(entry: ControlCommand) -> click.Command:
    def run(flags: ControlFlags, **given: Any) -> None:
        options = read_options(entry.options, given)
        if flags.workers and entry.for_all_workers:
            raise UsageError(entry.for_all_workers)
        with flags.open(may_create=getattr(options, "unknown_ok", False)) as session:
            if entry.ask is not None:
                result = entry.ask(session, options)
            else:
                result = CommandResult(answers=session.ask(entry.name, msgspec.to_builtins(options)))
            if entry.check is not None and result.answers is not None:
                entry.check(options, result.answers)
            show(flags, session, result, entry, options)

    run.__doc__ = entry.help
    command = click.command(entry.cli_names[0])(control_flags(run))
    command.params[:0] = parameters(entry.options)
    return command
