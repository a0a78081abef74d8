"""Read arguments from the command line: JSON, a file of JSON, or key=value pairs."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stem.core.errors import InvalidArguments, UsageError

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


def arguments(text: str | None, pairs: Sequence[str]) -> dict[str, Any]:
    """Return the task's named arguments, from --args or from --arg."""
    if text is not None and pairs:
        raise UsageError("--args and --arg do not go together; say it all in one of them.")
    return values(pairs, "--arg") if text is None else _object(text)


def values(pairs: Sequence[str], option: str) -> dict[str, Any]:
    """Read key=value pairs whose values are JSON, or else plain text."""
    return {key: _value(value, f"{option} {key}") for key, value in texts(pairs, option).items()}


def texts(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Read key=value pairs of plain text."""
    read: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"{option} {pair!r} is not key=value; write it like {option} customer=acme.")
        if key in read:
            raise UsageError(f"{option} {key} is given twice.")
        read[key] = value
    return read


def _object(text: str) -> dict[str, Any]:
    value = _decoded(_contents(text) if text.startswith("@") else text.encode(), "--args")
    if not isinstance(value, dict):
        raise InvalidArguments("""--args is not a JSON object of named arguments; write it like '{"to": "ada"}'.""")
    return value


def _contents(reference: str) -> bytes:
    path = reference[1:]
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"The file of --args {reference} cannot be read ({cause}).") from error


def _value(text: str, what: str) -> Any:
    """Text that begins like JSON must be JSON, so that a typo is not sent as text."""
    import msgspec

    if text[:1] in ("{", "[", '"'):
        return _decoded(text.encode(), what)
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        if _NUMBER.fullmatch(text):
            raise InvalidArguments(
                f"{what} is out of the range of numbers; put it in quotes to send it as text."
            ) from error
        return text


def json_value(text: str, what: str) -> Any:
    """Decode JSON from the command line. Raises InvalidArguments."""
    return _decoded(text.encode(), what)


def _decoded(text: bytes, what: str) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidArguments(f"{what} is not JSON ({error}).") from error
    except RecursionError as error:
        raise InvalidArguments(f"{what} is nested too deeply for JSON; flatten it.") from error
