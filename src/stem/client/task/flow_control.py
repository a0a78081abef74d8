"""The options of a task that decide which of its calls run: `key`, `debounce`, `singleton` and `cancel_running`."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from stem.client.task.options import TaskOptions, check_concurrency
from stem.client.task.policy import seconds
from stem.client.task.signature import FunctionSignature
from stem.core.envelope import Supersedes
from stem.core.errors import InvalidTask

HEADER = "header:"  # begins the part of a key that is a header's value
SINGLETON_HEADER = "singleton"  # its value is the key of a singleton call; each value has one place in the fleet


def planned_flow(options: TaskOptions) -> dict[str, Any]:
    """Return the fields of the call plan that these options set. Raises InvalidTask."""
    get = cast("Mapping[str, Any]", options).get
    debounce, longest, key = get("debounce"), get("debounce_max"), get("key")
    is_singleton, cancels = _switch("singleton", get("singleton")), _switch("cancel_running", get("cancel_running"))
    if get("unique") is not None and (debounce is not None or cancels):
        raise InvalidTask("unique keeps the first call, debounce and cancel_running the last one; choose one of them.")
    if debounce is None and longest is not None:
        raise InvalidTask("debounce_max is given and debounce is not; say how long to wait for another call.")
    if key is not None and not (is_singleton or cancels or debounce is not None or get("unique") is not None):
        raise InvalidTask("key is given without unique, debounce, singleton or cancel_running, which would use it.")
    if debounce is not None:
        debounce = seconds("debounce", debounce, above_zero=True)
    if longest is not None:
        longest = seconds("debounce_max", longest, above_zero=True)
        if debounce is not None and longest < debounce:
            raise InvalidTask(f"debounce_max of {longest:g} s is below debounce of {debounce:g} s; raise it.")
    supersedes = Supersedes.RUNNING if cancels else None if debounce is None else Supersedes.WAITING
    return {
        "key": _key(key),
        "delay_seconds": debounce,
        "supersedes": supersedes,
        "debounce_max_seconds": longest,
        "is_singleton": is_singleton,
    }


def places(options: TaskOptions) -> tuple[int | None, str | None]:
    """Return how many calls may run at a time, and the header whose values have places of their own. Raises InvalidTask."""
    get = cast("Mapping[str, Any]", options).get
    limit, per = get("max_concurrency"), get("concurrency_per")
    if get("singleton"):
        if limit is not None or per is not None:
            raise InvalidTask("A singleton runs one call of a key at a time; leave out max_concurrency.")
        return 1, SINGLETON_HEADER
    check_concurrency(limit, per)
    return limit, per


def check_key(key: tuple[str, ...] | None, signature: FunctionSignature) -> None:
    """Raises InvalidTask for a key that names no parameter."""
    for part in key or ():
        if not part.startswith(HEADER) and part not in signature.names:
            raise InvalidTask(
                f"The key of {signature.name} names {part!r}, and the task has no parameter {part!r}; "
                f'use one of its parameters, or "{HEADER}NAME".'
            )


def _key(key: Any) -> tuple[str, ...] | None:
    if key is None:
        return None
    parts = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, Iterable) else (key,)
    if not all(isinstance(part, str) and part not in ("", HEADER) for part in parts):
        raise InvalidTask(f'key is {key!r}; name arguments, or headers as "header:NAME".')
    return parts


def _switch(what: str, value: Any) -> bool:
    if value is not None and not isinstance(value, bool):
        raise InvalidTask(f"{what} is {value!r}; use True or False.")
    return bool(value)
