"""The engines of this process, each created for its first task."""

import os
from contextlib import suppress

from stem.contracts.engine import Engine, load

_engines: dict[str, Engine] = {}


def engine(name: str) -> Engine:
    """Return the engine of that name. Raises InvalidTask, and what the engine raises if it cannot work."""
    if name not in _engines:
        _engines[name] = load(name)()
    return _engines[name]


def close_engines() -> None:
    while _engines:
        _, one = _engines.popitem()
        with suppress(Exception):  # the process ends in any case
            one.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_engines.clear)  # a child has none of its parent's sessions
