"""Tasks that ask not to be isolated."""

import ctypes
import os
import threading
import time
from pathlib import Path

from stem import SoftTimeLimitExceeded, Stem, TaskContext
from support.worker_apps.plain import leave_mark, meet

app = Stem(retry=0.02)
app.task(name="meet")(meet)


@app.task(name="where", isolate=False)
def where() -> tuple[int, str]:
    return os.getpid(), threading.current_thread().name


@app.task(name="where-async", isolate=False)
async def where_async() -> int:
    return os.getpid()


@app.task(name="isolated")
def isolated() -> int:
    return os.getpid()


@app.task(name="keeps-the-lock", isolate=False)
def keeps_the_lock(file: str, seconds: int) -> int:
    leave_mark(file, "begun")
    ctypes.PyDLL(None).sleep(seconds)
    return os.getpid()


@app.task(name="spins", isolate=False)
def spins() -> None:
    while True:
        pass


@app.task(name="waits-for", isolate=False)
def waits_for(ctx: TaskContext, marks: str, file: str) -> int:
    leave_mark(marks, ctx.id)
    while not Path(file).exists():
        time.sleep(0.01)
    return ctx.attempt


@app.task(name="gives-what-it-has", isolate=False, soft_limit=0.2)
def gives_what_it_has() -> str:
    try:
        while True:
            time.sleep(0.01)
    except SoftTimeLimitExceeded:
        return "in part"


@app.task(name="sleeps", isolate=False)
def sleeps(seconds: float) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)
    return "slept"


@app.task(name="exits", isolate=False)
def exits(marks: str, when: str) -> None:
    leave_mark(marks, "exits")
    while not Path(when).exists():
        time.sleep(0.01)
    os._exit(3)


@app.task(name="reports", isolate=False)
def reports(ctx: TaskContext) -> str:
    ctx.progress(0.5, "half")
    return ctx.enqueue(isolated).id
