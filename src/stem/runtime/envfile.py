"""Read environment files: `NAME=value` lines as systemd and shells write them. Nothing is evaluated."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from stem.core.errors import ConfigError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ESCAPED = re.compile(r"\\([\"\\$`])")


@dataclass(frozen=True, slots=True)
class EnvironmentFile:
    """The variables that could be read, and a sentence for each line that could not."""

    variables: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def load(path: Path) -> dict[str, str]:
    """Return the variables. Raises ConfigError for the first fault."""
    found = read(path)
    if found.problems:
        raise ConfigError(found.problems[0])
    return found.variables


def read(path: Path) -> EnvironmentFile:
    try:
        text = path.read_text()
    except OSError as error:
        return EnvironmentFile(problems=[f"The environment file {path} cannot be read: {error.strerror}."])
    except UnicodeDecodeError:
        return EnvironmentFile(problems=[f"The environment file {path} is not UTF-8 text."])
    found = EnvironmentFile()
    for number, line in enumerate(text.split("\n"), start=1):
        match _parse(line.strip()):
            case (name, value):
                found.variables[name] = value
            case str(reason):
                found.problems.append(f"Line {number} of {path} {reason}; write it like NAME=value.")
            case None:
                pass
    return found


def _parse(line: str) -> tuple[str, str] | str | None:
    """Return name and value, or what is wrong (without the value, which may be secret), or None for a comment."""
    if not line or line.startswith(("#", ";")):
        return None
    name, equals, value = line.partition("=")
    name = name.strip().removeprefix("export ").strip()
    if not equals:
        return "has no '='"
    if not _NAME.fullmatch(name):
        return "does not begin with the name of a variable"
    if "\0" in value:
        return "holds a NUL"
    return _unquoted(name, value.strip())


def _unquoted(name: str, value: str) -> tuple[str, str] | str:
    quote = value[:1]
    if quote not in ("'", '"'):
        return name, value
    if len(value) < 2 or not value.endswith(quote) or (quote == '"' and _ends_in_escape(value)):
        return "has a quote that is not closed at its end"
    inner = value[1:-1]
    return name, inner if quote == "'" else _ESCAPED.sub(r"\1", inner)


def _ends_in_escape(value: str) -> bool:
    before = value[1:-1]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1
