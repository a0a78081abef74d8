"""Declares control commands: one decorated function defines what a worker does, the command line, its help and the docs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

import msgspec

from stem.contracts.steering.control import Steerable

if TYPE_CHECKING:
    from stem.control.caller import Answers
    from stem.control.command_session import CommandResult, CommandSession


class Payload(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A payload's fields. Unknown ones are refused: a misspelt `terminate` must not be dropped in silence."""


class NoPayload(Payload, frozen=True):
    """The command needs no arguments."""


@dataclass(frozen=True, slots=True)
class Option:
    """How a field is given on the command line. `flags` are flags, or the name of an argument in capitals, or both:
    `QUEUE --queue`. A field without an Option cannot be given there."""

    flags: str
    help: str = ""
    metavar: str | None = None
    missing: str = ""  # what to say where at least one value must be given and none is
    word_for_none: str = ""


P = TypeVar("P")
Columns = tuple[str, ...] | Callable[[Any], tuple[str, ...]]
Rows = Callable[[dict[str, Any]], Sequence[tuple[object, ...]]]


@dataclass(frozen=True, slots=True)
class Call(Generic[P]):
    """One command as its function sees it, in the worker."""

    worker: Steerable
    payload: P
    issued_at: float


Run = Callable[[Call[P]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ControlCommand:
    """A command. `options` are the fields that the command line has: those of the payload, unless the caller does something of
    its own first (`ask`). `check` may refuse what workers answered. `changes` tells commands that change something from
    those that only look."""

    name: str
    cli_names: tuple[str, ...]
    aliases: tuple[str, ...]
    changes: bool
    payload: type[Any]
    options: type[msgspec.Struct]
    run: Callable[[Call[Any]], dict[str, Any]]
    ask: "Callable[[CommandSession, Any], CommandResult] | None"
    check: "Callable[[Any, Answers], None] | None"
    columns: Columns
    rows: Rows
    shrink: tuple[str, ...]
    for_all_workers: str  # refuses --worker, in a sentence; empty: it may be given

    @property
    def help(self) -> str:
        return self.run.__doc__ or ""

    @property
    def summary(self) -> str:
        return self.help.partition("\n")[0]

    def read(self, payload: dict[str, Any]) -> Any:
        """Raises msgspec.ValidationError."""
        return msgspec.convert(payload, self.payload)


def command(
    name: str,
    *,
    aliases: tuple[str, ...] = (),
    cli_names: tuple[str, ...] = (),
    changes: bool = False,
    options: type[msgspec.Struct] | None = None,
    ask: "Callable[[CommandSession, Any], CommandResult] | None" = None,
    check: "Callable[[Any, Answers], None] | None" = None,
    columns: Columns = ("reply",),
    rows: Rows,
    shrink: tuple[str, ...] = (),
    for_all_workers: str = "",
) -> Callable[[Run[P]], Run[P]]:
    """Make a function a command. It takes a `Call` of its payload's type and returns the reply's payload; its docstring is the
    help of the command line. `columns` (which may depend on the options) and `rows` show a reply as a table, in which `shrink`
    names the columns that may be cut. `cli_names`: the names on the command line, where they are not the name and its aliases."""

    def register(run: Run[P]) -> Run[P]:
        (payload,) = get_args(run.__annotations__["call"])
        shown = cli_names or (name, *aliases)
        entry = ControlCommand(
            name,
            shown,
            aliases,
            changes,
            payload,
            options or payload,
            run,
            ask,
            check,
            columns,
            rows,
            shrink,
            for_all_workers,
        )
        for known_as in (name, *aliases):
            if known_as in _commands:
                raise ValueError(f"There are two control commands of the name {known_as!r}.")
            _commands[known_as] = entry
        return run

    return register


def find_command(name: str) -> ControlCommand | None:
    """By its name or an alias."""
    return _loaded().get(name)


def find_command_alone(name: str) -> ControlCommand | None:
    """The same, without the import of the other commands where the file is named like the command."""
    file = name.replace("-", "_")
    if (
        name not in _commands
        and file.isidentifier()
        and find_spec(module := f"stem.control.commands.{file}") is not None
    ):
        import_module(module)
    return _commands.get(name) or find_command(name)


def all_commands() -> list[ControlCommand]:
    """By name, each once."""
    return sorted({entry.name: entry for entry in _loaded().values()}.values(), key=lambda entry: entry.name)


def _loaded() -> Mapping[str, ControlCommand]:
    """Imports the commands' modules, each of which registers its own."""
    global _is_loaded
    if not _is_loaded:
        package = import_module("stem.control.commands")
        for module in iter_modules(package.__path__):
            import_module(f"{package.__name__}.{module.name}")
        _is_loaded = True
    return _commands


_commands: dict[str, ControlCommand] = {}
_is_loaded = False
