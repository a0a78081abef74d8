"""Masks the arguments that a task declares sensitive. The only place that does; the store keeps the real values.

A name is that of a parameter, or a path into it: `card`, `payment.cvv`. A path leads through lists, into each of their items.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Union

import msgspec

from stem.core.errors import UsageError
from stem.core.text.masking import MASK

LEAST_LENGTH = 3  # of a value that is looked for in texts: shorter ones stand everywhere

_Paths = dict[str, Union["_Paths", None]]  # None: all of it
_MASKED = msgspec.Raw(msgspec.json.encode(MASK))
_ABSENT = object()
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


def masked_args(args: bytes | msgspec.Raw, names: Iterable[str]) -> bytes:
    """The JSON of arguments as a person may see it: everything else stays as it was written, digit by digit. Arguments that
    cannot be read are masked whole."""
    paths = _paths(names)
    if not paths:
        return bytes(args)
    try:
        return bytes(_masked(msgspec.Raw(bytes(args)), paths))
    except _UNREADABLE:
        return bytes(_MASKED)


def masked_object(arguments: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The same of decoded arguments."""
    paths = _paths(names)
    return {name: _masked_value(value, paths[name]) if name in paths else value for name, value in arguments.items()}


def unmasked_object(edited: Mapping[str, Any], original: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Arguments that a person edited while they were masked: what is still masked gets its value back. Raises UsageError
    where there was none."""
    unmasked: dict[str, Any] = _unmasked(dict(edited), dict(original), _paths(names))
    return unmasked


def sensitive_values(arguments: Mapping[str, Any], names: Iterable[str]) -> tuple[str, ...]:
    """The texts of all sensitive values, longest first."""
    paths = _paths(names)
    found = {text for name in paths if name in arguments for text in _texts(arguments[name], paths[name])}
    return tuple(sorted(found, key=lambda text: (-len(text), text)))


def without_values(text: str, values: Iterable[str]) -> str:
    """A text in which those values may stand, such as the message of an error."""
    for value in values:
        text = text.replace(value, MASK)
    return text


def _paths(names: Iterable[str]) -> _Paths:
    found: _Paths = {}
    for name in names:
        at: _Paths | None = found
        *parents, last = name.split(".")
        for parent in parents:
            at = None if at is None else at.setdefault(parent, {})
        if at is not None:
            at[last] = None
    return found


def _masked(raw: msgspec.Raw, paths: _Paths | None) -> msgspec.Raw:
    """What is no object where a path goes on is masked whole, because nobody knows where in it the value is."""
    if paths is None:
        return _MASKED
    match bytes(raw).lstrip()[:1]:
        case b"{":
            fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
            shown = {name: _masked(each, paths[name]) if name in paths else each for name, each in fields.items()}
            return msgspec.Raw(msgspec.json.encode(shown))
        case b"[":
            items = msgspec.json.decode(raw, type=list[msgspec.Raw])
            return msgspec.Raw(msgspec.json.encode([_masked(each, paths) for each in items]))
        case b"n":
            return raw
        case _:
            return _MASKED


def _masked_value(value: Any, paths: _Paths | None) -> Any:
    match value:
        case Mapping() if paths is not None:
            return {name: _masked_value(each, paths[name]) if name in paths else each for name, each in value.items()}
        case list() if paths is not None:
            return [_masked_value(each, paths) for each in value]
        case None if paths is not None:
            return None
        case _:
            return MASK


def _unmasked(edited: Any, original: Any, paths: _Paths | None) -> Any:
    match edited:
        case str() if edited == MASK:
            if original is _ABSENT:
                raise UsageError(f"The arguments have {MASK} where there was no value before; write the value there.")
            return original
        case dict() if paths is not None:
            before = original if isinstance(original, dict) else {}
            return {
                name: _unmasked(value, before.get(name, _ABSENT), paths[name]) if name in paths else value
                for name, value in edited.items()
            }
        case list() if paths is not None:
            items = original if isinstance(original, list) else []
            return [
                _unmasked(value, items[place] if place < len(items) else _ABSENT, paths)
                for place, value in enumerate(edited)
            ]
        case _:
            return edited


def _texts(value: Any, paths: _Paths | None) -> Iterator[str]:
    match value:
        case Mapping():
            within = value if paths is None else {name: value[name] for name in paths if name in value}
            for name, each in within.items():
                yield from _texts(each, None if paths is None else paths[name])
        case list() | tuple() | set() | frozenset():
            for each in value:
                yield from _texts(each, paths)
        case None | bool():
            return
        case str() | int() | float():
            written = {value, repr(value)[1:-1]} if isinstance(value, str) else {str(value)}
            yield from (text for text in written if len(text) >= LEAST_LENGTH)
        case _:
            yield from _of_object(value, paths)


def _of_object(value: Any, paths: _Paths | None) -> Iterator[str]:
    """Of a date, an address, a struct: as JSON has it, and as Python prints it."""
    if paths is None and len(str(value)) >= LEAST_LENGTH:
        yield str(value)
    try:
        plain = msgspec.to_builtins(value, enc_hook=str)
    except (TypeError, ValueError, RecursionError):
        return
    if plain is not value:
        yield from _texts(plain, paths)
