"""An app that writes down which signals its processes hear."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

from stem import Stem, TaskContext, signals

app = Stem(retry=0.01, max_retries=1)
NAMES = (
    "before_enqueue", "after_enqueue", "isolate_started", "task_started", "task_succeeded", "task_failed", "task_retried",
    "task_revoked", "worker_ready", "worker_draining", "worker_stopped", "isolate_recycled", "autoscaled", "schedule_fired",
)  # fmt: skip


def _hear(name: str) -> None:
    def heard(_: Any) -> None:
        file = os.environ.get("HEARD")
        if file is not None:
            with Path(file).open("a") as opened:
                opened.write(f"{name}\n")

    getattr(signals, name).connect(heard)


for each in NAMES:
    _hear(each)


@signals.task_started.connect
def stumble(_: TaskContext) -> None:
    raise ValueError("the handler's own fault")


@app.task(name="quick")
def quick() -> int:
    return os.getpid()


@app.task(name="broken")
def broken() -> None:
    raise ValueError("boom")


@app.task(name="dropped")
async def dropped() -> None:
    from stem import Drop

    raise Drop("not needed")


@app.task(name="parent")
def parent(ctx: TaskContext) -> str:
    return ctx.enqueue(quick).id


@app.task(name="crashes")
def crashes() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="endless")
def endless() -> None:
    while True:
        time.sleep(0.01)


@app.task(name="endless-async")
async def endless_async() -> None:
    await asyncio.sleep(3600)


@app.task(name="stubborn")
def stubborn() -> None:
    while True:
        try:
            endless()
        except BaseException:  # noqa: BLE001 - nothing but a kill ends it
            continue
