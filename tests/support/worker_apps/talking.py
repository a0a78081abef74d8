"""Tasks that print and log, and hooks that write down when they were called."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from stem import Middleware, Stem, TaskContext, current_task
from stem.core.outcome import Settlement
from support.worker_apps.plain import leave_mark, meet


class Diary(Middleware):
    """Writes each call into the file that the task's header names."""

    def __init__(self, name: str) -> None:
        self._name = name

    def consume(self, context: TaskContext) -> None:
        self._note(context, "consume")

    def execute(self, context: TaskContext) -> AbstractContextManager[Any]:
        return self._around(context)

    def error(self, context: TaskContext, error: BaseException) -> None:
        self._note(context, f"error({type(error).__name__})")

    def settle(self, context: TaskContext, settlement: Settlement) -> None:
        self._note(context, f"settle({type(settlement).__name__})")

    @contextmanager
    def _around(self, context: TaskContext) -> Iterator[None]:
        self._note(context, "enter")
        try:
            yield
        finally:
            self._note(context, "leave")

    def _note(self, context: TaskContext, what: str) -> None:
        if "diary" in context.headers:
            leave_mark(context.headers["diary"], f"{self._name}.{what}:{os.getpid()}")
        if what.startswith(context.headers.get("failing-hook", "-")) and self._name == "outer":
            kind = context.headers.get("failing-with", "RuntimeError")
            raise {"RuntimeError": RuntimeError, "SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt}[
                kind
            ]("a hook that fails")


app = Stem(retry=0.02, middleware=[Diary("outer"), Diary("inner")])
app.task(name="meet")(meet)


@app.task(name="speaks")
def speaks(ctx: TaskContext, text: str) -> int:
    print("printed", text)
    print("to stderr", text, file=sys.stderr)
    logging.getLogger("their.module").warning("logged %s", text)
    ctx.logger.info("by the context %s", text)
    sys.stdout.write("half ")
    sys.stdout.write(f"a line {text}")
    return os.getpid()


@app.task(name="speaks-below")
def speaks_below(text: str) -> None:
    subprocess.run(["echo", f"from below {text}"], check=True)


@app.task(name="speaks-around")
def speaks_around(text: str) -> None:
    os.write(1, f"around {text}\n".encode())
    os.write(2, f"no end {text}".encode())


@app.task(name="speaks-async")
async def speaks_async(text: str) -> None:
    for number in range(3):
        print("async", number, text)
        await asyncio.sleep(0.01)


@app.task(name="speaks-inline", isolate=False)
def speaks_inline(text: str) -> None:
    print("inline", text)


@app.task(name="last-words")
def last_words(text: str) -> None:
    print("last words", text)
    os.write(1, f"last breath {text}".encode())
    os._exit(3)


@app.task(name="fails")
def fails() -> None:
    raise ValueError("as asked")


@app.task(name="who")
def who() -> int:
    return current_task().attempt
