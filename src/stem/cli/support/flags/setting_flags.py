"""Turn declared settings into the flags of a command."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from stem.cli.support import times
from stem.cli.support.sizes import SIZE

if TYPE_CHECKING:
    from stem.core.settings.setting import Setting


def with_flags(settings: "Iterable[Setting]") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags of these settings; it is called with a value per field, None where a flag was not given."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for setting in reversed([each for each in settings if each.flags]):
            function = _option(setting)(function)
        return function

    return decorate


def given_flags(settings: "Iterable[Setting]", given: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return the flags that were given, as name and value by the key of the setting."""
    values = {setting: given.get(setting.field) for setting in settings if setting.flags}
    return {
        setting.key: (setting.flags.split()[-1], value)
        for setting, value in values.items()
        if value not in (None, "", ())
    }


def _option(setting: "Setting") -> Callable[[Callable[..., None]], Callable[..., None]]:
    kind = setting.kind
    shape: dict[str, Any] = {"metavar": _METAVARS.get(setting.key)}
    match kind.name:
        case "whole number":
            shape = {"type": click.IntRange(*(kind.bounds or ())), "metavar": "N"}
        case "duration":
            shape = {"type": times.DURATION}
        case "size":
            shape = {"type": SIZE, "metavar": "SIZE"}
        case "choice":
            shape = {"type": click.Choice(kind.choices, case_sensitive=False)}
        case "switch":
            shape = {"default": None}
        case "list":
            shape |= {"multiple": True}
        case _:
            pass
    return click.option(*setting.flags.split(), setting.field, help=_help(setting), **shape)


_METAVARS = {"worker.app": "MODULE:NAME", "worker.queues": "QUEUE", "worker.name": "NAME"}


def _help(setting: "Setting") -> str:
    """The sentence of the declaration, and where else the value comes from."""
    text = setting.help[:-1] + "; may be repeated." if setting.kind.name == "list" else setting.help
    notes = [f"env: {setting.variable}"] if setting.variable else []
    default = setting.default_text
    if default and setting.kind.name != "switch":
        notes.append(f"default: {default}")
    return f"{text}  [{'; '.join(notes)}]" if notes else text
