"""Small tasks to compose, in eager mode: they note their calls, so that a test can say what ran, with what and how often."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from stem import Drop, FailedResult, Stem, TaskContext
from stem.client.canvas.handle import CanvasHandle
from stem.core.record import TaskFilter, TaskRecord
from stem.testing import World, eager

_numbers = count(1)


class Kit:
    """An app and its tasks. `calls` has the name and the first argument of each call, in order."""

    def __init__(self, app: Stem) -> None:
        self.app = app
        self.calls: list[tuple[str, Any]] = []
        self.failures: list[FailedResult] = []
        self.broken: set[Any] = set()  # the first arguments for which `fragile` raises
        self.world: World

        @app.task(name="add")
        def add(x: int, y: int = 0) -> int:
            self.calls.append(("add", x))
            return x + y

        @app.task(name="keep")
        def keep(what: Any) -> Any:
            self.calls.append(("keep", what))
            return what

        @app.task(name="nothing")
        def nothing() -> None:
            self.calls.append(("nothing", None))

        @app.task(name="fail", max_retries=0)
        def fail(what: Any = None) -> None:
            self.calls.append(("fail", what))
            raise ValueError(f"broken {what}")

        @app.task(name="fragile", max_retries=0)
        def fragile(what: Any) -> Any:
            self.calls.append(("fragile", what))
            if what in self.broken:
                raise ValueError(f"broken {what}")
            return what

        @app.task(name="on-error", max_retries=0)
        def on_error(failed: FailedResult, raises: bool = False) -> None:
            self.failures.append(failed)
            if raises:
                raise ValueError("the callback is broken as well")

        @app.task(name="end")
        def end(ctx: TaskContext, what: Any) -> Any:
            self.calls.append(("end", what))
            ctx.end_chain(f"ended with {what}")

        @app.task(name="drop")
        def drop() -> None:
            raise Drop("not wanted")

        self.add, self.keep, self.nothing, self.fail, self.fragile = add, keep, nothing, fail, fragile
        self.on_error, self.end, self.drop = on_error, end, drop

    def ran(self, name: str) -> list[Any]:
        """The first arguments of the calls of a task, in order."""
        return [what for called, what in self.calls if called == name]

    def records(self, handle: CanvasHandle[Any]) -> list[TaskRecord]:
        """Of all tasks and joins of a canvas, oldest first."""
        page = self.app.store.results.page(TaskFilter(meta={"canvasId": handle.id}), limit=1000)
        return page.items[::-1]


@contextmanager
def composing() -> Iterator[Kit]:
    with Stem(f"memory://composing-{next(_numbers)}") as app:
        kit = Kit(app)
        with eager(app) as world:
            kit.world = world
            yield kit
