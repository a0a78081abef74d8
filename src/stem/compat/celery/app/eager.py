"""Runs signatures here and now, in a store of their own: `task.apply()` and task_always_eager."""

from contextvars import ContextVar
from threading import local
from typing import Any
from uuid import uuid4

from stem.compat.celery import states
from stem.compat.celery.app.bridged import BridgedStem
from stem.compat.celery.app.sending import send
from stem.compat.celery.current import eager_errors
from stem.compat.celery.result import AsyncResult, EagerResult, GroupResult
from stem.testing import World, eager

MOST_RUNS = 100_000  # a task that retries itself for ever would never end

_here: ContextVar[tuple[BridgedStem, World] | None] = ContextVar("stem_celery_eager", default=None)


class EagerRunner:
    """Runs the tasks of one app at once. Each thread has a store of its own, in memory."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._local = local()

    def run(self, sig: Any, *, throw: bool) -> Any:
        """Run a signature and everything that follows from it, and return what became of it."""
        inside = _here.get()
        if inside is not None:
            return self._finish(*inside, sig, throw)
        stem = self._stem()
        with eager(stem) as world:
            token = _here.set((stem, world))
            try:
                return self._finish(stem, world, sig, throw)
            finally:
                _here.reset(token)

    def _finish(self, stem: BridgedStem, world: World, sig: Any, throw: bool) -> Any:
        result = send(self._app, stem, sig)
        for _ in range(MOST_RUNS):
            world.run_pending()
            due_at = world.next_due_at()
            if due_at is None:
                break
            world.clock.advance(max(0.0, due_at - world.clock()))  # retries and countdowns do not wait
        ended = _ended(stem, result)
        if throw:
            ended.get()
        return ended

    def _stem(self) -> BridgedStem:
        found: BridgedStem | None = getattr(self._local, "stem", None)
        if found is None:
            found = self._local.stem = BridgedStem(self._app, url=f"memory://celery-{uuid4().hex}", is_eager=True)
        for task in self._app.tasks.values():
            found.add(task)
        return found


def _ended(stem: BridgedStem, result: Any) -> Any:
    """The result, with its values in it."""
    if isinstance(result, GroupResult):
        made: Any = GroupResult(result.id, [_ended(stem, each) for each in result.results], app=result.app)
    else:
        made = _of_task(stem, result)
    made.parent = None if result.parent is None else _ended(stem, result.parent)
    return made


def _of_task(stem: BridgedStem, result: AsyncResult) -> EagerResult:
    found = AsyncResult(result.id, app=_Seen(stem))
    value, state, traceback = found.result, found.state, found.traceback
    if state in states.EXCEPTION_STATES:
        value = eager_errors.pop(result.id, value)
    return EagerResult(result.id, value, state, traceback, found.name)


class _Seen:
    """As much of an app as a result needs."""

    def __init__(self, stem: BridgedStem) -> None:
        self.stem = stem
