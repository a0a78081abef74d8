"""The forms that a setting's value can take: each reads a value, checks it, or says what is expected instead."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:[eE]\+?(\d{1,3}))?\s*(ms|s|m|h|d)?", re.ASCII)
_SECONDS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.ASCII | re.IGNORECASE)
_BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class ValueKind:
    """One form of value.

    `read` takes a value from a file or a flag and raises ValueError with the text of what is expected instead. `from_text`
    turns the text of an environment variable into such a value, as far as it can. `check` judges a value that code gave;
    without it, `read` does. `show` turns a value into what JSON can hold.
    """

    name: str
    read: Callable[[object], Any]
    from_text: Callable[[str], object] = str.strip
    check: Callable[[object], Any] | None = None
    show: Callable[[Any], Any] = lambda value: value
    bounds: tuple[int, int] | None = None
    choices: tuple[str, ...] = ()


def duration(text: str) -> float | None:
    """Return the seconds of `10`, `250ms`, `2s`, `5m`, `2h`, `1d`; None if the text is no duration."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    return float(f"{match[1]}e{match[2] or 0}") * _SECONDS[match[3] or ""]


def span(seconds: float) -> str:
    """Return a length of time in its largest unit, as people and settings read it: 250ms, 12s, 3m, 5h, 2d."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    unit = next((unit for unit in ("d", "h", "m") if seconds >= 2 * _SECONDS[unit]), "s")
    return f"{seconds / _SECONDS[unit]:.0f}{unit}"


def size(text: str) -> int | None:
    """Return the bytes of `1048576`, `512MB`, `2 GiB`, in steps of 1024; None if the text is no size."""
    match = _SIZE.fullmatch(text.strip())
    count = None if match is None else float(match[1]) * _BYTES[match[2].lower()]
    return int(count) if count is not None and count.is_integer() else None


def whole(least: int, most: int) -> ValueKind:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"a whole number from {least:,} to {most:,}")
        return value

    return ValueKind("whole number", read, _number_of(int), bounds=(least, most))


def number(most: float) -> ValueKind:
    def read(value: object) -> float:
        return _bounded(value, most, False, "a number")

    return ValueKind("number", read, _number_of(float))


def seconds(most: float, *, or_zero: bool = False, least: float = 0.0, because: str = "") -> ValueKind:
    """Durations up to `most` seconds. Operators may not go below `least`, for the reason given; code may."""

    def read(value: object) -> float:
        given = duration(value) if isinstance(value, str) else value
        if isinstance(given, int | float) and 0 < given < least:
            raise ValueError(f"at least {least:g} s: {because}")
        return _bounded(given, most, or_zero, "a number of seconds, or a duration like 250ms, 2s, 5m or 1h,")

    def check(value: object) -> float:
        return _bounded(value, most, or_zero, "a number of seconds")

    return ValueKind("duration", read, check=check)


def size_up_to(most: int) -> ValueKind:
    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise ValueError(f"a whole number of bytes from 1 to {most:,}, or a size like 512MB")
        return value

    return ValueKind("size", lambda value: check(size(value) if isinstance(value, str) else value), check=check)


def choice(*names: str) -> ValueKind:
    def read(value: object) -> str:
        if not isinstance(value, str) or value.lower() not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return value.lower()

    return ValueKind("choice", read, choices=names)


def matching(pattern: re.Pattern[str], expected: str) -> ValueKind:
    """Text that matches as a whole."""

    def read(value: object) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError(expected)
        return value

    return ValueKind("text", read)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text")
    return value


def _string(value: object) -> str:
    """A text that code gave may be empty."""
    if not isinstance(value, str):
        raise ValueError("a text")
    return value


def _path(value: object) -> PurePath:
    return value if isinstance(value, PurePath) else PurePath(_text(value))


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("a switch: true or false, in the environment 1 or 0")
    return value


def _switch_of(text: str) -> object:
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else text


def _names(value: object) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not given or not all(isinstance(name, str) and name for name in given):
        raise ValueError("a name, or a list of names")
    return tuple(dict.fromkeys(given))


TEXT = ValueKind("text", _text, check=_string)
PATH = ValueKind("path", _path, show=str)
SWITCH = ValueKind("switch", _switch, _switch_of)
NAMES = ValueKind("list", _names, lambda text: [name.strip() for name in text.split(",")])


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
