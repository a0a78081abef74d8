"""The current app and the task that runs here. Below everything else, so that parts find each other without importing it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class RunningCall:
    """A task that runs here, with its request. `is_entered` once the function itself has been called."""

    __slots__ = ("is_entered", "request", "task")

    def __init__(self, task: Any, request: Any) -> None:
        self.task = task
        self.request = request
        self.is_entered = False


_apps: list[Any] = []
_running: ContextVar[tuple[RunningCall, ...]] = ContextVar("stem_celery_running", default=())
eager_errors: dict[str, BaseException] = {}  # what tasks that run here at once have raised, until it is asked for
shared: list[Any] = []  # tasks of every app, in the order in which they were declared


def set_current(app: Any) -> None:
    if app in _apps:
        _apps.remove(app)
    _apps.append(app)


def apps() -> list[Any]:
    return list(_apps)


def find_app() -> Any | None:
    return _apps[-1] if _apps else None


def running() -> RunningCall | None:
    """The innermost task that runs here."""
    stack = _running.get()
    return stack[-1] if stack else None


@contextmanager
def run(task: Any, request: Any) -> Iterator[RunningCall]:
    """Make a task the current one."""
    one = RunningCall(task, request)
    token = _running.set((*_running.get(), one))
    try:
        yield one
    finally:
        _running.reset(token)


class CurrentApp:
    """Stands for the app that was made last, as `celery.current_app` does."""

    def _get_current_object(self) -> Any:
        found = find_app()
        if found is None:
            raise RuntimeError("There is no app yet; import the module that makes it: app = Celery(…).")
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._get_current_object(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._get_current_object(), name, value)

    def __repr__(self) -> str:
        return repr(find_app())


class CurrentTask:
    """Stands for the task that runs here, as `celery.current_task` does; it is false outside of a task."""

    def _get_current_object(self) -> Any:
        found = running()
        return None if found is None else found.task

    def __bool__(self) -> bool:
        return running() is not None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._get_current_object(), name)

    def __repr__(self) -> str:
        return repr(self._get_current_object())


current_app: Any = CurrentApp()
current_task: Any = CurrentTask()
