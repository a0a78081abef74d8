"""What `stem worker multi` starts: a command, its environment and its files, from flags, environment and placeholders."""

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stem.core.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from stem.runtime.daemon import Plan
    from stem.runtime.placeholders import Node

COMMAND_VARIABLE = "STEM_WORKER_COMMAND"


def process_options(function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option("--logfile", default="%n.log", show_default=True, help="Where stdout and stderr go."),
            click.option("--workdir", metavar="DIR", help="Where it runs.  [default: here]"),
            *command_options,
        )
    ):
        function = option(function)
    return function


command_options = (
    click.option("--env-file", metavar="FILE", help="NAME=value lines, which go before the environment's."),
    click.option("--command", metavar="PROGRAM", help="What to start.  [default: stem worker start]"),
    click.option("--command-line", metavar="LINE", help=f"The same with its words.  [env: {COMMAND_VARIABLE}]"),
)


@dataclass(frozen=True, slots=True)
class Templates:
    """As typed: files may still hold placeholders. `words` is empty for this very Stem's worker."""

    words: tuple[str, ...]
    passed_on: tuple[str, ...]
    pidfile: str
    logfile: str
    workdir: str
    env_file: str | None

    def plan(self, node: "Node") -> "Plan":
        """Relative paths count from here, wherever the worker runs. Raises UsageError, ConfigError."""
        from stem.runtime.daemon import Plan

        environment = {**os.environ, **_variables(self.env_file and node.expand(self.env_file))}
        pidfile, logfile = (Path(node.expand(each)).absolute() for each in (self.pidfile, self.logfile))
        told = {
            "STEM_WORKER_NODE": node.name,
            "STEM_WORKER_PIDFILE": str(pidfile),
            "STEM_WORKER_LOGFILE": str(logfile),
        }
        command = self.words or from_variable(environment) or worker_command(node)
        return Plan(
            command=(*command, *self.passed_on),
            environment=environment | told,
            pidfile=pidfile,
            logfile=logfile,
            workdir=Path(node.expand(self.workdir)).absolute(),
        )


def templates(given: dict[str, Any], passed_on: tuple[str, ...]) -> Templates:
    return Templates(
        words=words(given["command"], given["command_line"]),
        passed_on=passed_on,
        pidfile=given["pidfile"],
        logfile=given["logfile"],
        workdir=given["workdir"] or ".",
        env_file=given["env_file"],
    )


def words(command: str | None, line: str | None) -> tuple[str, ...]:
    """The command that flags name; empty if they name none."""
    if command is not None and line is not None:
        raise UsageError("Name the command once: by --command or by --command-line.")
    if command is not None:
        return (command,)
    return () if line is None else _split(line, "--command-line")


def from_variable(environment: Mapping[str, str]) -> tuple[str, ...]:
    return _split(environment.get(COMMAND_VARIABLE, ""), COMMAND_VARIABLE)


def worker_command(node: "Node") -> tuple[str, ...]:
    """Named after its node, so that `--worker alpha@host` finds it; a `--name` that is passed on comes later, and counts."""
    # -P: a folder called `stem` in the working directory is not this package.
    return (sys.executable, "-P", "-m", "stem", "worker", "start", "--name", f"{node.name}@{node.host}")


def _split(line: str, source: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise ConfigError(f"{source} cannot be split into words ({error}); quote it as for a shell.") from error


def _variables(file: str | None) -> dict[str, str]:
    from stem.runtime.envfile import load

    return load(Path(file)) if file else {}
