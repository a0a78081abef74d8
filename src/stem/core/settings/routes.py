"""Read the rules of routing from code and from the configuration file, which says in which line each of them stands."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from reprlib import repr as short
from typing import Any

from stem.core.decisions.routing import IN_CODE, Route
from stem.core.errors import ConfigError
from stem.core.settings.kinds import ValueKind
from stem.core.settings.setting import did_you_mean

KEY = "routes"
_KEYS = [each.name for each in fields(Route) if each.name != "origin"]
_EXAMPLE = "- {match: mail.*, queue: mail}"


@dataclass(frozen=True, slots=True)
class FileRoutes:
    """What a file has below `routes`, the line of that key, and the line of each item."""

    value: object
    line: int
    lines: tuple[int, ...] = ()


def routes_of_code(given: Iterable[Route | Mapping[str, Any]]) -> tuple[Route, ...]:
    """Return the routes that code gave, as objects or as mappings. Raises ConfigError."""
    if isinstance(given, str | Mapping | Route) or not isinstance(given, Iterable):
        raise ConfigError(f'routes is {short(given)}; give a list: routes=[Route("mail.*", queue="mail")].')
    return tuple(each if isinstance(each, Route) else _route(each, IN_CODE) for each in given)


def routes_of_file(given: object, file: str) -> tuple[tuple[Route, ...], list[str]]:
    """Return the routes of a file, and a sentence for each that cannot be used."""
    found = given if isinstance(given, FileRoutes) else FileRoutes(given, 0)
    if found.value is None:
        return (), []
    if not isinstance(found.value, list):
        told = f"routes is a {type(found.value).__name__}; use a list of rules, such as {_EXAMPLE}"
        return (), [f"{_place(file, found.line)}{told}."]
    routes, errors = [], []
    lines = found.lines or (0,) * len(found.value)
    for each, line in zip(found.value, lines, strict=True):
        try:
            routes.append(_route(each, f"{file}:{line}" if line else file))
        except ConfigError as error:
            errors.append(f"{_place(file, line)}{error}")
    return tuple(routes), errors


def is_routes(key: object) -> bool:
    return str(key).lower() == KEY


def _route(given: object, origin: str) -> Route:
    """Raises ConfigError."""
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"A route is {short(given)}; use a mapping with match and queue, priority, tenant or broadcast."
        )
    for key in given:
        if key not in _KEYS:
            hint = did_you_mean(str(key), {name: name for name in _KEYS})
            raise ConfigError(f"A route has the key {key!r}, which is not one of {', '.join(_KEYS)}{hint}")
    options = {name: value for name, value in given.items() if value is not None}
    if "match" not in options:
        raise ConfigError("A route has no match; name the tasks that it is for, such as match: 'mail.*'.")
    return Route(options.pop("match"), **options, origin=origin)


def _place(file: str, line: int) -> str:
    where = f"{file}, line {line}" if file and line else file
    return f"{where}: " if where else ""


def _read(value: object) -> tuple[Route, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, Route) for each in value):
        raise ValueError("a list of Route objects")
    return tuple(value)


ROUTES = ValueKind("list", _read, show=lambda routes: tuple(map(str, routes)))
