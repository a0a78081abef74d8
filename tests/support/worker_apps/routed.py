"""An app whose routes send one task to every worker and others to queues that they do not name."""

import os
import time

from stem import Route, Stem, TaskContext
from support.worker_apps.ledger import write

app = Stem(
    routes=[
        Route("cache.*", broadcast=True),
        Route("mail.*", queue="mail", priority=8),
        Route("report.*", tenant="reports"),
    ]
)


@app.task(name="cache.clear")
def clear(ctx: TaskContext, mark: str) -> int:
    write("begin", f"{mark}/{ctx.worker}")
    return os.getppid()


@app.task(name="mail.send", queue="declared")
def send(mark: str) -> str:
    write("begin", mark)
    return mark


@app.task(name="report.make")
def make(ctx: TaskContext) -> str | None:
    return ctx.tenant


@app.task(name="spread")
def spread(ctx: TaskContext, mark: str) -> list[str]:
    """Broadcasts from within a task."""
    handle = ctx.enqueue(clear, mark)
    return [each.id for each in getattr(handle, "handles", {}).values()]


@app.task(name="nap")
def nap(seconds: float) -> None:
    time.sleep(seconds)
