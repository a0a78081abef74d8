"""Warns of tasks that wait for other tasks: each keeps its slot, and when all slots wait, nothing runs any more."""

import logging

from stem.client.context import running
from stem.client.link import Link

log = logging.getLogger("stem.worker")


def warn_of_waiting(link: Link) -> None:
    """Once per process, at the first `get` or `wait` inside a task."""

    def warn() -> None:
        context = running.get()
        if context is not None:
            link.before_wait = _nothing
            log.warning(
                "task.waits id=%s name=%s: it waits for another task and keeps its slot; when tasks that wait fill all slots, "
                "none of them ever ends. Let the other task enqueue what comes next (ctx.enqueue), or wait with a timeout: "
                "get(timeout=30)",
                context.id,
                context.name,
            )

    link.before_wait = warn


def _nothing() -> None: ...
