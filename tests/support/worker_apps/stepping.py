"""Tasks with durable steps, which write down in one shared file what they do."""

import os
from typing import Any

from stem import Stem, TaskContext
from support.worker_apps.ledger import write

app = Stem()


def _noted(mark: str) -> str:
    write("begin", mark)
    return mark


@app.task(name="crash-after-step")
def crash_after_step(ctx: TaskContext, mark: str, flag: str) -> list[str]:
    first = ctx.step("first", _noted, f"{mark}-first")
    if not os.path.exists(flag):
        open(flag, "w").close()
        os._exit(1)
    return [first, ctx.step("second", _noted, f"{mark}-second")]


@app.task(name="approve")
def approve(ctx: TaskContext, mark: str) -> Any:
    ctx.step("asked", _noted, f"{mark}-asked")
    return ctx.wait_event("approved", timeout="1h")


@app.task(name="sleeper")
async def sleeper(ctx: TaskContext, mark: str, seconds: float) -> int:
    await ctx.astep("before", _noted, f"{mark}-before")
    await ctx.asleep(seconds)
    return ctx.attempt
