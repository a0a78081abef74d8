"""Build the command, environment and files of a node from flags, environment and placeholders."""

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from stem.cli.support.flags.several import with_options
from stem.core.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from stem.runtime.daemon import LaunchPlan
    from stem.runtime.placeholders import Node

COMMAND_VARIABLE = "STEM_WORKER_COMMAND"


command_options = with_options(
    click.option("--env-file", metavar="FILE", help="Read NAME=value lines, which override the environment."),
    click.option("--command", metavar="PROGRAM", help="Start this program.  [default: stem worker start]"),
    click.option("--command-line", metavar="LINE", help=f"Start this program with words.  [env: {COMMAND_VARIABLE}]"),
)
process_options = with_options(
    click.option("--logfile", default="%n.log", show_default=True, help="Append stdout and stderr to this file."),
    click.option("--workdir", metavar="DIR", help="Run in this folder.  [default: here]"),
    command_options,
)


@dataclass(frozen=True, slots=True)
class LaunchTemplate:
    """How to start any node: files may hold placeholders. Empty `words` stand for the worker of this Stem."""

    words: tuple[str, ...]
    passed_on: tuple[str, ...]
    pidfile: str
    logfile: str
    workdir: str
    env_file: str | None

    @classmethod
    def from_flags(cls, given: dict[str, Any], passed_on: tuple[str, ...]) -> Self:
        return cls(
            words=words(given["command"], given["command_line"]),
            passed_on=passed_on,
            pidfile=given["pidfile"],
            logfile=given["logfile"],
            workdir=given["workdir"] or ".",
            env_file=given["env_file"],
        )

    def plan(self, node: "Node") -> "LaunchPlan":
        """Fill in the placeholders. Relative paths count from the current folder. Raises UsageError, ConfigError."""
        from stem.runtime.daemon import LaunchPlan

        environment = {**os.environ, **_variables(self.env_file and node.expand(self.env_file))}
        pidfile, logfile = (Path(node.expand(each)).absolute() for each in (self.pidfile, self.logfile))
        variables = {
            "STEM_WORKER_NODE": node.name,
            "STEM_WORKER_PIDFILE": str(pidfile),
            "STEM_WORKER_LOGFILE": str(logfile),
        }
        command = self.words or from_variable(environment) or worker_command(node)
        return LaunchPlan(
            command=(*command, *self.passed_on),
            environment=environment | variables,
            pidfile=pidfile,
            logfile=logfile,
            workdir=Path(node.expand(self.workdir)).absolute(),
        )


def words(command: str | None, line: str | None) -> tuple[str, ...]:
    """Return the command that the flags name; empty if they name none."""
    if command is not None and line is not None:
        raise UsageError("Name the command once: by --command or by --command-line.")
    if command is not None:
        return (command,)
    return () if line is None else _split(line, "--command-line")


def from_variable(environment: Mapping[str, str]) -> tuple[str, ...]:
    return _split(environment.get(COMMAND_VARIABLE, ""), COMMAND_VARIABLE)


def worker_command(node: "Node") -> tuple[str, ...]:
    """Name the worker after its node, so that `--worker alpha@host` finds it; a `--name` that is passed on overrides it."""
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
