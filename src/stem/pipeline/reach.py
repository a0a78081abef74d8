"""A store at hand, and no looking for garbage, for as long as a piece of Spark's work takes."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from stem.contracts.store import Store


class Opens(Protocol):
    def open(self) -> Store: ...


@contextmanager
def opened(asked: Opens) -> Iterator[Store]:
    store = asked.open()
    try:
        yield store
    finally:
        store.upkeep.close()


@contextmanager
def uncollected() -> Iterator[None]:
    """Rows by the hundred thousand and no cycle among them: the collector would go through all of them again and again,
    for a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
