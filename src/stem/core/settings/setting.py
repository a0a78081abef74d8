"""Declare a setting once, as the annotation of a struct's field, and derive from that how it is read, checked and shown."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from operator import attrgetter
from reprlib import Repr
from typing import Any, TypeVar

import msgspec

from stem.core.settings.kinds import ValueKind, span
from stem.core.text.masking import MASK, is_secret

_UNITS = {"duration": "Seconds", "size": "Bytes"}
S = TypeVar("S", bound=msgspec.Struct)

_short = Repr()  # a value may be huge, or contain itself
_short.maxlevel, _short.maxstring, _short.maxother = 2, 100, 100


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: `lease_seconds: Annotated[float, Setting("worker.lease", seconds(86400.0), "…", flags="--lease")] = 10.0`.

    The field's name is its name in code and the field's default is its default. `declared` fills in both here.
    """

    key: str  # its place in the file, `block.name`; empty: only code can set it
    kind: ValueKind
    help: str
    variable: str = ""
    also: str = ""  # other names that a file may use, separated by blanks
    flags: str = ""  # of `stem worker start`, separated by blanks
    follows: str = ""  # the key whose value holds where this one has none
    auto: str = ""  # says what the worker picks where there is no value
    mask: Callable[[Any], Any] | None = None  # removes secrets
    is_never_empty: bool = False  # an empty variable is an error: what it guards must not turn itself off
    field: str = ""  # in code; dots lead into nested structs
    default: Any = None

    @property
    def block(self) -> str:
        return self.key.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition(".")[2]

    @property
    def names(self) -> list[str]:
        """What a file may call it within its block: its unit may follow the name."""
        unit = _UNITS.get(self.kind.name, "")
        names = [self.name, *self.also.split()]
        return list(dict.fromkeys([*names, *(name if name.endswith(unit) else name + unit for name in names)]))

    @property
    def unset(self) -> Any:
        """The value that stands for the default; None where that depends on something else."""
        return None if self.follows or self.auto else self.default

    @property
    def default_text(self) -> str:
        """The default as help and documentation show it; empty where there is none."""
        match self.default:
            case _ if self.auto or self.follows:
                return self.auto or self.follows
            case None | "" | ():
                return ""
            case bool():
                return str(self.default).lower()
            case float() if self.kind.name == "duration":
                return span(self.default)
            case int() if self.kind.name == "size" and self.default % 1024**2 == 0:
                return f"{self.default // 1024**2}MB"
            case float():
                return f"{self.default:g}"
            case _:
                return str(self.kind.show(self.default) or "")

    def shown(self, value: Any) -> Any:
        """Return the value as JSON can hold it, without secrets."""
        value = None if value is None else self.kind.show(value)
        if self.mask is None:
            return MASK if value and is_secret(self.key) else value
        return self.mask(value) if isinstance(value, str | dict) else value


@dataclass(frozen=True, slots=True)
class SourceValues:
    """The values that one source gives, by key, and what is wrong with it, in sentences."""

    values: dict[str, Any] = field(default_factory=dict, repr=False)  # some are secret
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@cache
def declared(struct: type[msgspec.Struct]) -> tuple[Setting, ...]:
    """Return the settings of a struct and of the structs nested in it."""
    return tuple(_declared(struct, struct(), ""))


def build(struct: type[S], values: Mapping[str, Any]) -> S:
    """Make the struct from values by key. A value that is missing or None leaves the field's default."""
    fields = {}
    for name, hint in struct.__annotations__.items():
        setting = _setting_of(hint)
        value = build(hint, values) if setting is None else values.get(setting.key)
        if value is not None:
            fields[name] = value
    return struct(**fields)


def problems(settings: msgspec.Struct) -> Iterator[str]:
    """Judge the values that code gave by the same rules. A default is never at fault."""
    for setting in declared(type(settings)):
        value, default = attrgetter(setting.field)(settings), setting.default
        if type(value) is not type(default) or value != default:
            try:
                (setting.kind.check or setting.kind.read)(value)
            except ValueError as expected:
                yield f"{setting.field} is {_told(setting, value)}; use {expected}."


def read_environment(settings: Iterable[Setting], env: Mapping[str, str]) -> SourceValues:
    """Read the variables. An empty one counts as unset, except for settings that are never empty."""
    reading = SourceValues()
    for setting in settings:
        text = env.get(setting.variable) if setting.variable else None
        if text or (text is not None and setting.is_never_empty):
            told = _told(setting, text)
            _read(reading, setting, setting.kind.from_text(text), f"{setting.variable}={told} is not")
    return reading


def read_block(
    settings: Iterable[Setting], block: str, document: Mapping[Any, Any], *, neighbours: Iterable[str] = ()
) -> SourceValues:
    """Read one block of a file, in any spelling of its keys. Null counts as unset. `neighbours` are further names that an
    unknown key may have been meant for."""
    reading = SourceValues()
    by_spelling = {_plain(spelling): setting for setting in settings for spelling in setting.names}
    for key, value in document.items():
        there = f"{block}.{key}" if block else str(key)
        setting = by_spelling.get(_plain(str(key)))
        if setting is None:
            keys = {spelling: each.key for spelling, each in by_spelling.items()}
            hint = did_you_mean(str(key), keys | {name: name for name in neighbours})
            reading.warnings.append(f"{there} is not known, and ignored{hint}")
        elif setting.key in reading.values:
            reading.errors.append(f"{there} says again what another spelling of {setting.key} has said; keep one.")
        elif value is not None:
            _read(reading, setting, value, f"{there} is {_told(setting, value)}; use")
    return reading


def did_you_mean(name: str, known: Mapping[str, str], *, cutoff: float = 0.7) -> str:
    """Return the end of a sentence: which of the known names is likely to be meant. `known` maps names to how they are shown."""
    from difflib import get_close_matches

    by_plain = {_plain(each): shown for each, shown in known.items()}
    found = get_close_matches(_plain(name), by_plain, n=1, cutoff=cutoff)
    return f"; did you mean {by_plain[found[0]]}?" if found else "."


def _declared(struct: type[msgspec.Struct], defaults: msgspec.Struct, prefix: str) -> Iterator[Setting]:
    for name, hint in struct.__annotations__.items():
        setting, default = _setting_of(hint), getattr(defaults, name)
        if setting is None:
            yield from _declared(hint, default, f"{prefix}{name}.")
        else:
            yield replace(setting, field=prefix + name, default=default)


def _setting_of(hint: Any) -> Setting | None:
    """None: the field holds a nested struct."""
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Setting)), None)


def _read(reading: SourceValues, setting: Setting, value: object, complaint: str) -> None:
    try:
        reading.values[setting.key] = setting.kind.read(value)
    except ValueError as expected:
        reading.errors.append(f"{complaint} {expected}.")


def _told(setting: Setting, value: object) -> str:
    """Repeat a value in a sentence, unless it may be a secret: the sentence may end in a log."""
    if setting.mask is None:
        return _short.repr(value)
    return "'***'" if isinstance(value, str) else f"of type {type(value).__name__}"


def _plain(name: str) -> str:
    """maxTasksPerChild, max_tasks_per_child and max-tasks-per-child are one name."""
    return name.replace("_", "").replace("-", "").lower()
