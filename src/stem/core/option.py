"""Options as people write them, in a file or in the environment: read, checked, or refused with the reason."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from reprlib import Repr
from typing import Any

from stem.core.masking import MASK, is_secret

_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:[eE]\+?(\d{1,3}))?\s*(ms|s|m|h|d)?", re.ASCII)
_SECONDS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.ASCII | re.IGNORECASE)
_BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_brief = Repr()  # a value may be huge, or say itself over and over again
_brief.maxlevel, _brief.maxstring, _brief.maxother = 2, 100, 100


@dataclass(frozen=True, slots=True)
class Kind:
    """`read` takes what a file holds and raises ValueError, its text being what is expected instead. `from_text` makes
    the text of an environment variable such a value, as far as it can."""

    read: Callable[[object], Any]
    from_text: Callable[[str], object] = str.strip


@dataclass(frozen=True, slots=True)
class Option:
    """One setting: its place in the file, its variable, and what else it may be called there."""

    path: str
    kind: Kind
    default: Any = None
    variable: str = ""
    spellings: tuple[str, ...] = ()
    follows: str = ""  # the option whose value counts where this one has none
    mask: Callable[[Any], Any] | None = None  # takes out what is secret
    is_never_empty: bool = False  # an empty variable is an error: what it guards must not turn itself off

    @property
    def block(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    def shown(self, value: Any) -> Any:
        if self.mask is None:
            return MASK if value and is_secret(self.path) else value
        return self.mask(value) if isinstance(value, str | dict) else value


@dataclass(frozen=True, slots=True)
class Reading:
    """What one source says, by path, and what is wrong with it. Errors and warnings are sentences."""

    values: dict[str, Any] = field(default_factory=dict, repr=False)  # some are secret
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def defaults(options: Iterable[Option]) -> dict[str, Any]:
    return {option.path: option.default for option in options}


def read_environment(options: Iterable[Option], env: Mapping[str, str]) -> Reading:
    """An empty variable counts as unset, but for options that are never empty."""
    reading = Reading()
    for option in options:
        text = env.get(option.variable) if option.variable else None
        if text or (text is not None and option.is_never_empty):
            _read(reading, option, option.kind.from_text(text), f"{option.variable}={_told(option, text)} is not")
    return reading


def read_block(
    options: Iterable[Option], block: str, document: Mapping[Any, Any], *, neighbours: Iterable[str] = ()
) -> Reading:
    """One block of a file, whatever way its keys are spelled. What is null counts as unset. `neighbours` are what else
    a key that is not known may have been meant for."""
    reading = Reading()
    by_spelling = {_plain(spelling): o for o in options for spelling in (o.name, *o.spellings)}
    for key, value in document.items():
        there = f"{block}.{key}" if block else str(key)
        option = by_spelling.get(_plain(str(key)))
        if option is None:
            paths = {spelling: each.path for spelling, each in by_spelling.items()}
            hint = near(str(key), paths | {name: name for name in neighbours})
            reading.warnings.append(f"{there} is not known, and ignored{hint}")
        elif option.path in reading.values:
            reading.errors.append(f"{there} says again what another spelling of {option.path} has said; keep one.")
        elif value is not None:
            _read(reading, option, value, f"{there} is {_told(option, value)}; use")
    return reading


def near(name: str, known: Mapping[str, str], *, cutoff: float = 0.7) -> str:
    """The end of a sentence: what is likely to be meant by a name, of those known, as they are to be told."""
    from difflib import get_close_matches

    by_plain = {_plain(each): told for each, told in known.items()}
    found = get_close_matches(_plain(name), by_plain, n=1, cutoff=cutoff)
    return f"; did you mean {by_plain[found[0]]}?" if found else "."


def duration(text: str) -> float | None:
    """Seconds of `10`, `250ms`, `2s`, `5m`, `2h`, `1d`; None if the text is no duration."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    return float(f"{match[1]}e{match[2] or 0}") * _SECONDS[match[3] or ""]


def size(text: str) -> int | None:
    """Bytes of `1048576`, `512MB`, `2 GiB`, in steps of 1024; None if the text is no size."""
    match = _SIZE.fullmatch(text.strip())
    count = None if match is None else float(match[1]) * _BYTES[match[2].lower()]
    return int(count) if count is not None and count.is_integer() else None


def whole(least: int, most: int) -> Kind:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"a whole number from {least:,} to {most:,}")
        return value

    return Kind(read, _number_of(int))


def number(most: float, *, or_zero: bool = False) -> Kind:
    def read(value: object) -> float:
        return _bounded(value, most, or_zero, "a number")

    return Kind(read, _number_of(float))


def seconds(most: float, *, or_zero: bool = False, least: float = 0.0) -> Kind:
    def read(value: object) -> float:
        given = duration(value) if isinstance(value, str) else value
        if isinstance(given, int | float) and 0 < given < least:
            raise ValueError(f"at least {least:g} s")
        return _bounded(given, most, or_zero, "a number of seconds, or a duration like 250ms, 2s, 5m or 1h,")

    return Kind(read)


def size_up_to(most: int) -> Kind:
    def read(value: object) -> int:
        given = size(value) if isinstance(value, str) else value
        if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= most:
            raise ValueError(f"a whole number of bytes from 1 to {most:,}, or a size like 512MB")
        return given

    return Kind(read)


def choice(*names: str) -> Kind:
    def read(value: object) -> str:
        if not isinstance(value, str) or value.lower() not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return value.lower()

    return Kind(read)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text")
    return value


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("a switch: true or false, in the environment 1 or 0")
    return value


def _switch_of(text: str) -> object:
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else text


def _names(value: object) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not given or not all(isinstance(name, str) and name for name in given):
        raise ValueError("a name, or a list of names")
    return tuple(dict.fromkeys(given))


TEXT = Kind(_text)
SWITCH = Kind(_switch, _switch_of)
NAMES = Kind(_names, lambda text: [name.strip() for name in text.split(",")])


def _read(reading: Reading, option: Option, value: object, complaint: str) -> None:
    try:
        reading.values[option.path] = option.kind.read(value)
    except ValueError as expected:
        reading.errors.append(f"{complaint} {expected}.")


def _told(option: Option, value: object) -> str:
    """What may be a secret is not repeated, for the sentence may end in a log."""
    if option.mask is None:
        return _brief.repr(value)
    return "'***'" if isinstance(value, str) else f"a {type(value).__name__}"


def _bounded(value: object, most: float, or_zero: bool, what: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most and (value or or_zero):
        return float(value)
    raise ValueError(f"{what} {'from' if or_zero else 'above'} zero, up to {most:,}")


def _number_of(kind: type[int] | type[float]) -> Callable[[str], object]:
    def convert(text: str) -> object:
        try:
            return kind(text)
        except ValueError:
            return text

    return convert


def _plain(name: str) -> str:
    """maxTasksPerChild, max_tasks_per_child and max-tasks-per-child are one name."""
    return name.replace("_", "").replace("-", "").lower()
