"""Closes Django's stale database connections around each task, as Django itself does around each request.

Without it a connection that the server has closed stays in the process, and every later task fails with it.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

_running_coroutines = 0


def close_stale() -> None:
    """Close stale connections before and after a task of this thread. One dictionary lookup without Django."""
    if "django.db" in sys.modules:
        _for_each(_close_if_stale)


async def coroutine_begins() -> None:
    """Close stale connections before a coroutine. Coroutines share one thread for Django's database calls, so while others
    run only broken connections are closed: an old one may be in the middle of a query."""
    global _running_coroutines
    _running_coroutines += 1
    if "django.db" in sys.modules:
        in_djangos_thread = import_module("asgiref.sync").sync_to_async
        await in_djangos_thread(_for_each)(_close_if_stale if _running_coroutines == 1 else _close_if_broken)


def coroutine_ended() -> None:
    global _running_coroutines
    _running_coroutines -= 1


def _for_each(close: Callable[[Any], object]) -> None:
    """Close every connection that is in no transaction. In an eager test the transaction is the test's."""
    if not sys.modules["django.conf"].settings.configured:
        return
    for connection in sys.modules["django.db"].connections.all(initialized_only=True):
        if connection.connection is not None and not connection.in_atomic_block:
            with suppress(Exception):  # a connection that cannot even be closed is no failure of the task
                close(connection)


def _close_if_stale(connection: Any) -> None:
    connection.close_if_unusable_or_obsolete()


def _close_if_broken(connection: Any) -> None:
    connection.health_check_done = False
    if connection.errors_occurred and not connection.is_usable():
        connection.close()
