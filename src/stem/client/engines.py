"""The engines of this process, each made when its first task comes."""

import os
from contextlib import suppress

from stem.contracts.engine import Engine, load

_engines: dict[str, Engine] = {}


def engine(name: str) -> Engine:
    """Raises InvalidTask, and what the engine raises where it cannot work."""
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
