"""The commands there are: each a decorated function with a typed payload, from which worker, CLI and help follow."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from stem.contracts.control import Steerable


class Payload(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A payload's fields. Unknown ones are refused: a misspelt `terminate` must not be dropped in silence."""


class Nothing(Payload, frozen=True):
    """No payload."""


P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Call(Generic[P]):
    """One command as its function sees it."""

    worker: Steerable
    payload: P
    issued_at: float


@dataclass(frozen=True, slots=True)
class Entry:
    """`changes` tells commands that change something from those that only look."""

    name: str
    help: str
    aliases: tuple[str, ...]
    changes: bool
    payload: type[Any]
    run: Callable[[Call[Any]], dict[str, Any]]

    def read(self, payload: dict[str, Any]) -> Any:
        """Raises msgspec.ValidationError."""
        return msgspec.convert(payload, self.payload)


def command(
    name: str, payload: type[P], *, help: str, aliases: tuple[str, ...] = (), changes: bool = False
) -> Callable[[Callable[[Call[P]], dict[str, Any]]], Callable[[Call[P]], dict[str, Any]]]:
    """Make a function a command. What it returns is the reply's payload."""

    def register(run: Callable[[Call[P]], dict[str, Any]]) -> Callable[[Call[P]], dict[str, Any]]:
        entry = Entry(name, help, aliases, changes, payload, run)
        for known_as in (name, *aliases):
            if known_as in _entries:
                raise ValueError(f"There are two control commands of the name {known_as!r}.")
            _entries[known_as] = entry
        return run

    return register


def find(name: str) -> Entry | None:
    """By its name or an alias."""
    _load()
    return _entries.get(name)


def entries() -> list[Entry]:
    """By name, each once."""
    _load()
    return sorted({entry.name: entry for entry in _entries.values()}.values(), key=lambda entry: entry.name)


def _load() -> None:
    # Here, for the commands import this module.
    import stem.control.commands  # noqa: F401


_entries: dict[str, Entry] = {}
