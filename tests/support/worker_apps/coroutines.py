"""Tasks that share an event loop, well or badly."""

import asyncio
import os
import time
from pathlib import Path

from stem import SoftTimeLimitExceeded, Stem, TaskContext, current_task
from support.worker_apps.plain import leave_mark, meet

app = Stem(retry=0.02)
app.task(name="meet")(meet)


@app.task(name="naps")
async def naps(seconds: float, file: str | None = None) -> int:
    if file is not None:
        leave_mark(file, current_task().id)
    await asyncio.sleep(seconds)
    return os.getpid()


@app.task(name="waits-for")
async def waits_for(ctx: TaskContext, marks: str, file: str) -> int:
    """Marks each of its runs, then runs on until the file is there."""
    leave_mark(marks, ctx.id)
    while not Path(file).exists():
        await asyncio.sleep(0.01)
    return ctx.attempt


@app.task(name="gathers")
async def gathers(count: int) -> list[int]:
    async def one(number: int) -> int:
        await asyncio.sleep(0.01)
        assert current_task().name == "gathers"
        return number

    return await asyncio.gather(*(one(number) for number in range(count)))


@app.task(name="gives-what-it-has", soft_limit=0.2)
async def gives_what_it_has() -> str:
    try:
        await asyncio.sleep(30)
    except SoftTimeLimitExceeded:
        await asyncio.sleep(0.05)  # it may go on awaiting
        return "in part"
    return "whole"


@app.task(name="gives-up-in-a-group", soft_limit=0.2)
async def gives_up_in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(asyncio.sleep(30))


@app.task(name="defies-its-soft-limit", soft_limit=0.2)
async def defies_its_soft_limit() -> None:
    while True:
        try:
            await asyncio.sleep(30)
        except SoftTimeLimitExceeded:
            continue


@app.task(name="blocks")
async def blocks(marks: str) -> None:
    leave_mark(marks, current_task().id)
    time.sleep(3600)


@app.task(name="raises")
async def raises(kind: str) -> None:
    await asyncio.sleep(0)
    raise {
        "ValueError": ValueError,
        "SystemExit": SystemExit,
        "KeyboardInterrupt": KeyboardInterrupt,
        "CancelledError": asyncio.CancelledError,
    }[kind]("as asked")


@app.task(name="cancels-itself")
async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(30)


@app.task(name="cancels-a-child")
async def cancels_a_child() -> str:
    child = asyncio.create_task(asyncio.sleep(30))
    await asyncio.sleep(0)
    child.cancel()
    try:
        await child
    except asyncio.CancelledError:
        return "cancelled"
    return "not"


@app.task(name="times-out")
async def times_out() -> str:
    try:
        async with asyncio.timeout(0.05):
            await asyncio.sleep(30)
    except TimeoutError:
        return "timed out"
    return "not"


@app.task(name="leaves-work-behind")
async def leaves_work_behind() -> str:
    leaves_work_behind.left = asyncio.create_task(asyncio.sleep(3600))  # type: ignore[attr-defined]
    return "left"


@app.task(name="stops-the-loop")
async def stops_the_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(30)


@app.task(name="exits")
async def exits(marks: str, when: str) -> None:
    leave_mark(marks, current_task().id)
    while not Path(when).exists():
        await asyncio.sleep(0.01)
    os._exit(3)


@app.task(name="pid")
def pid() -> int:
    return os.getpid()
