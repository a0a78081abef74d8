"""Tasks that wait for tasks."""

import os

from stem import Stem

app = Stem(max_retries=0)


@app.task(name="child")
def child(number: int) -> int:
    return number


@app.task(name="parent")
def parent(number: int) -> tuple[int, int]:
    return child.enqueue(number).get(timeout=30), os.getpid()


@app.task(name="parent-async")
async def parent_async(number: int) -> tuple[int, int]:
    return await child.enqueue(number).aget(timeout=30), os.getpid()


@app.task(name="parent-inline", isolate=False)
def parent_inline(number: int) -> tuple[int, int]:
    return child.enqueue(number).get(timeout=30), os.getpid()
