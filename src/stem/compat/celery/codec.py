"""Arguments and results as JSON, with the types that Celery's JSON carries: dates, times, UUID, Decimal, bytes."""

import base64
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

TYPE, VALUE = "__type__", "__value__"

_PLAIN = frozenset({type(None), bool, int, float, str})
_WRITE: dict[type, tuple[str, Callable[[Any], Any]]] = {
    datetime: ("datetime", datetime.isoformat),  # before date, which it is as well
    date: ("date", date.isoformat),
    time: ("time", time.isoformat),
    Decimal: ("decimal", str),
    UUID: ("uuid", lambda value: {"hex": value.hex, "version": value.version}),
}
_READ: dict[str, Callable[[Any], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "decimal": Decimal,
    "uuid": lambda value: UUID(value["hex"] if isinstance(value, Mapping) else value),
    "bytes": str.encode,
    "base64": base64.b64decode,
}


def to_wire(value: Any) -> Any:
    """The value as JSON knows it; one that it cannot carry is left to be refused by Stem."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {_key(name): to_wire(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_wire(part) for part in value]
    if isinstance(value, bytes):
        return _bytes(value)
    if (reduce := getattr(value, "__json__", None)) is not None and callable(reduce):
        return to_wire(reduce())
    for kind, (marker, write) in _WRITE.items():
        if isinstance(value, kind):
            return {TYPE: marker, VALUE: write(value)}
    return list(map(to_wire, value)) if isinstance(value, range) else value


def from_wire(value: Any) -> Any:
    """What `to_wire` was given; tuples and sets are lists."""
    if isinstance(value, list):
        return [from_wire(part) for part in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {TYPE, VALUE} and value[TYPE] in _READ:
        try:
            return _READ[value[TYPE]](value[VALUE])
        except (ValueError, TypeError, KeyError, ArithmeticError):
            return value  # whoever wrote it did not use `to_wire`
    return {name: from_wire(part) for name, part in value.items()}


def wire_call(args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """A call as named arguments: positional ones travel as a list under a name of their own."""
    named = {str(name): to_wire(value) for name, value in kwargs.items()}
    positional = [to_wire(value) for value in args]
    return {**named, "_args": positional} if positional else named


def _key(name: Any) -> str:
    if isinstance(name, str):
        return str(name)
    return {None: "null", True: "true", False: "false"}.get(name) or str(name)


def _bytes(value: bytes) -> dict[str, str]:
    try:
        return {TYPE: "bytes", VALUE: value.decode()}
    except UnicodeDecodeError:
        return {TYPE: "base64", VALUE: base64.b64encode(value).decode()}
