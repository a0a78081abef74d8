"""Warn about tasks that wait for other tasks: each keeps its slot, and when all slots wait, nothing runs."""

import logging

from stem.client.run.context import running
from stem.client.store_connection import StoreConnection

log = logging.getLogger("stem.worker")


def warn_of_waiting(store_connection: StoreConnection) -> None:
    """Once per process, at the first `get` or `wait` inside a task."""

    def warn() -> None:
        context = running.get()
        if context is not None:
            store_connection.before_wait = _nothing
            log.warning(
                "task.wait_detected id=%s name=%s: it waits for another task and keeps its slot. "
                "When waiting tasks fill all slots, none of them ever ends. "
                "Let the other task enqueue what comes next (ctx.enqueue), or wait with a timeout: get(timeout=30)",
                context.id,
                context.name,
            )

    store_connection.before_wait = warn


def _nothing() -> None: ...
