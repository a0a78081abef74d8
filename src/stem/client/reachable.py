"""Checks that a worker, which only imports the app's modules, will find the code of a task."""

import logging
import sys
from collections.abc import Callable
from inspect import unwrap
from types import FrameType
from typing import TYPE_CHECKING, Any

from stem.core.errors import InvalidTask

if TYPE_CHECKING:
    from stem.client.store_connection import StoreConnection
    from stem.client.task.definition import Definition

log = logging.getLogger("stem.client")

SCRIPT = ("__main__", "__mp_main__")  # the latter in a child that multiprocessing started afresh


def is_made_at_import(function: Callable[..., Any]) -> bool:
    """Return False for a function that is created later than at the import of its module."""
    if "<locals>" not in unwrap(function).__qualname__ or function.__module__ in SCRIPT:
        return True
    frame: FrameType | None = sys._getframe()
    while frame is not None and not _is_import(frame):
        frame = frame.f_back
    return frame is not None


def _is_import(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__")
    return frame.f_code.co_name == "<module>" and name in sys.modules and name not in SCRIPT


def check_reachable(store_connection: "StoreConnection", definition: "Definition") -> None:
    """Refuse or warn before the first call is sent. Raises InvalidTask."""
    if store_connection.runs_tasks_here or store_connection.settings.broker_url.lower().startswith("memory:"):
        return
    if definition.name.startswith("__main__."):
        raise InvalidTask(
            f"Task {definition.name} is defined in an interactive session, and no worker can import it; put it into a "
            "file, or run it here with Worker(app, in_process=True)."
        )
    if not definition.is_made_at_import and definition.name not in _warned:
        _warned.add(definition.name)
        log.warning(
            "task.unreachable: Task %s is defined inside a function, so a worker that imports the module does not find "
            "it and its calls become dead letters; define it at the top level of the module.",
            definition.name,
        )


_warned: set[str] = set()
