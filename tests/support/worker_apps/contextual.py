"""Tasks that look at their context, and speak through it."""

import time
from pathlib import Path
from typing import Any

from stem import Stem, TaskContext, current_task
from support.worker_apps.plain import leave_mark

app = Stem(retry=0.02)


@app.task(name="who")
def who(ctx: TaskContext) -> dict[str, Any]:
    assert current_task() is ctx
    return {
        "id": ctx.id,
        "name": ctx.name,
        "queue": ctx.queue,
        "attempt": ctx.attempt,
        "max_retries": ctx.max_retries,
        "worker": ctx.worker,
        "headers": ctx.headers,
        "meta": ctx.meta,
        "tenant": ctx.tenant,
        "parent": ctx.parent_id,
        "root": ctx.root_id,
    }


@app.task(name="who-async")
async def who_async(ctx: TaskContext) -> str:
    assert current_task() is ctx
    return ctx.id


@app.task(name="reports")
def reports(ctx: TaskContext, until: str) -> None:
    """One word after the other, each when the file says so."""
    ctx.progress(0.25, "a quarter", rows=3)
    _await(f"{until}-1")
    ctx.heartbeat()
    _await(f"{until}-2")
    ctx.progress(0.75, "ü", rows={"done": [1, 2]})
    _await(f"{until}-3")


@app.task(name="reports-often")
def reports_often(ctx: TaskContext, count: int) -> float:
    """What it cost, in seconds of a processor: how busy the machine is otherwise does not count."""
    began_at = time.process_time()
    for number in range(count):
        ctx.progress(number / count, "on and on", number=number)
    return time.process_time() - began_at


@app.task(name="takes-its-time")
def takes_its_time(ctx: TaskContext, seconds: float, speaks: bool) -> float:
    """How long it ran, by its own clock."""
    began_at = time.monotonic()
    time.sleep(seconds / 2)
    if speaks:
        ctx.heartbeat()
    time.sleep(seconds / 2)
    return time.monotonic() - began_at


@app.task(name="holds-on")
def holds_on(ctx: TaskContext, file: str, seconds: float | None) -> None:
    if seconds is not None:
        ctx.extend_lease(seconds)
    leave_mark(file, ctx.id)
    time.sleep(60)


@app.task(name="tries-again")
def tries_again(ctx: TaskContext, delay: float) -> int:
    if ctx.attempt == 0:
        ctx.retry(delay, "not yet")
    return ctx.attempt


@app.task(name="enqueues")
def enqueues(ctx: TaskContext, depth: int) -> list[str]:
    """A line of descendants: the ids of those that this one made."""
    if depth == 0:
        return []
    below = ctx.enqueue(enqueues, depth - 1).id
    return [below, ctx.enqueue("who", headers={"tenant": "acme"}).id, current_task().enqueue(who).id]


@app.task(name="enqueues-in-vain")
def enqueues_in_vain(ctx: TaskContext) -> list[str]:
    said = []
    for name, args in (("nobody", {}), ("enqueues", {"depth": "deep"})):
        try:
            ctx.enqueue(name, args)
        except Exception as error:  # noqa: BLE001 - which it is, is what is asked
            said.append(type(error).__name__)
    return said


@app.task(name="measures")
def measures(text: str) -> int:
    return len(text)


@app.task(name="repeats")
def repeats(text: str, count: int) -> str:
    return text * count


def _await(file: str) -> None:
    while not Path(file).exists():
        time.sleep(0.005)
