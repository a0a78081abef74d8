"""Tasks to compose. The test makes the same ones on an app of its own, so that it can write signatures of them."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from stem import FailedResult, SoftTimeLimitExceeded, Stem, TaskContext, group
from support.worker_apps.plain import leave_mark


class Tasks:
    """The tasks of an app; each leaves a mark in a file where a test counts runs."""

    def __init__(self, app: Stem) -> None:
        @app.task(name="add")
        def add(x: int, y: int = 0) -> int:
            return x + y

        @app.task(name="keep")
        def keep(what: Any, file: str = "") -> Any:
            if file:
                leave_mark(file, "kept")
            return what

        @app.task(name="akeep")
        async def akeep(what: Any) -> Any:
            return what

        @app.task(name="inline-keep", isolate=False)
        def inline_keep(what: Any) -> Any:
            return what

        @app.task(name="flaky", max_retries=5, retry=0.01)
        def flaky(ctx: TaskContext, until: int) -> int:
            if ctx.attempt < until:
                raise ValueError("not yet")
            return ctx.attempt

        @app.task(name="patient", soft_limit=0.3, hard_limit=30)
        def patient() -> str:
            try:
                while True:
                    time.sleep(0.01)
            except SoftTimeLimitExceeded:
                return "in time"

        @app.task(name="deadly", retry=0.01)
        def deadly(what: Any) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        @app.task(name="needs", max_retries=0)
        def needs(file: str) -> str:
            if not Path(file).exists():
                raise ValueError("not mended")
            return "mended"

        @app.task(name="hold")
        def hold(file: str, until: str) -> str:
            leave_mark(file, "held")
            while not Path(until).exists():
                time.sleep(0.01)
            return "let go"

        @app.task(name="note-error", max_retries=0)
        def note_error(failed: FailedResult, file: str) -> str:
            leave_mark(file, failed.cause)
            return failed.cause

        @app.task(name="spread")
        def spread(ctx: TaskContext, count: int) -> None:
            ctx.replace(group(add.s(number) for number in range(count)))

        @app.task(name="spread-async")
        async def spread_async(ctx: TaskContext, count: int) -> None:
            ctx.replace(add.s(count) | add.s(1))

        @app.task(name="more")
        def more(ctx: TaskContext, what: int) -> int:
            ctx.spawn(add.s(what + 1), add.s(what + 2))
            return what

        @app.task(name="end")
        def end(ctx: TaskContext, what: Any) -> None:
            ctx.end_chain({"ended": what})

        self.add, self.keep, self.akeep, self.inline_keep = add, keep, akeep, inline_keep
        self.flaky, self.patient, self.deadly, self.hold = flaky, patient, deadly, hold
        self.note_error, self.spread, self.spread_async = note_error, spread, spread_async
        self.more, self.end, self.needs = more, end, needs


app = Stem(retry=0.02)
Tasks(app)
