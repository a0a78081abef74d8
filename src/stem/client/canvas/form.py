"""The JSON form of the options and arguments of a canvas."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from stem.client.task.options import CallPlan, check_unique, planned
from stem.client.task.policy import check_travelling_retry, seconds
from stem.core.decisions.retry import RetryStrategy
from stem.core.errors import InvalidTask
from stem.core.text.encode import encode_json

_DURATIONS = ("delay", "soft_limit", "hard_limit", "visibility_timeout")
_ANY_PLAN = CallPlan(queue="default", max_retries=0)
_MOST_BYTES = 1 << 40


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Raises InvalidTask."""
    planned(_ANY_PLAN, options)
    return {name: value for name, value in options.items() if value is not None}


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as JSON values. Raises InvalidTask."""
    if options.get("connection") is not None:
        raise InvalidTask("A canvas with a connection= has no JSON form; give the connection to submit(…).")
    return {name: _plain(name, value) for name, value in options.items() if value is not None}


def read_options(form: Mapping[str, Any]) -> dict[str, Any]:
    """The options that `plain_options` wrote. Raises InvalidTask."""
    options = dict(form)
    try:
        for name in ("not_before", "expires"):
            if isinstance(text := options.get(name), str):
                options[name] = datetime.fromisoformat(text)
        if "retry" in options:
            options["retry"] = msgspec.convert(options["retry"], RetryStrategy)
    except (ValueError, msgspec.ValidationError) as error:
        raise InvalidTask(f"The options of a canvas cannot be read ({error}); write them with to_dict().") from error
    return checked_options(options)


def plain_arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as JSON values. Raises InvalidArguments."""
    form = {"args": list(args), "kwargs": dict(kwargs)}
    encoded = encode_json(form, what="the arguments of a signature", limit_bytes=_MOST_BYTES)
    return {name: part for name, part in msgspec.json.decode(encoded, type=dict[str, Any]).items() if part}


def _plain(name: str, value: Any) -> Any:
    if name in _DURATIONS:
        return seconds(name, value)
    if name == "unique":
        return check_unique(value) or False
    if name == "retry":
        return msgspec.to_builtins(check_travelling_retry(value))
    if isinstance(value, datetime):
        return value.isoformat()
    if name == "expires":
        return seconds(name, value, above_zero=True)
    return msgspec.to_builtins(value)
