"""Results: one task's, several that are waited for together, and a group's."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stem.client.canvas.shape import read_shape
from stem.compat.celery.current import current_app
from stem.compat.celery.exceptions import CeleryTimeout
from stem.compat.celery.task_result import AsyncResult as AsyncResult
from stem.compat.celery.task_result import EagerResult as EagerResult
from stem.compat.celery.task_result import refuse_within_task
from stem.core.errors import TaskNotFound

POLL_SECONDS = 0.05


class ResultSet:
    """Results that are waited for together."""

    def __init__(self, results: Sequence[Any], app: Any = None, **_options: Any) -> None:
        self.results = list(results)
        self.app = app if app is not None else current_app

    def add(self, result: Any) -> None:
        if result not in self.results:
            self.results.append(result)

    def remove(self, result: Any) -> None:
        self.results.remove(result)

    def ready(self) -> bool:
        return all(result.ready() for result in self.results)

    def successful(self) -> bool:
        return all(result.successful() for result in self.results)

    def failed(self) -> bool:
        return any(result.failed() for result in self.results)

    def waiting(self) -> bool:
        return any(not result.ready() for result in self.results)

    def completed_count(self) -> int:
        return sum(int(result.successful()) for result in self.results)

    def get(
        self,
        timeout: float | None = None,
        propagate: bool = True,
        callback: Callable[[str, Any], Any] | None = None,
        disable_sync_subtasks: bool = True,
        **_options: Any,
    ) -> list[Any]:
        """The values, in the order of the results. Raises the first failure, or TimeoutError."""
        if disable_sync_subtasks:
            refuse_within_task()
        ends_at = None if timeout is None else time.monotonic() + timeout
        values = []
        for result in self.results:
            left = None if ends_at is None else max(0.0, ends_at - time.monotonic())
            value = result.get(timeout=left, propagate=propagate, disable_sync_subtasks=False)
            values.append(value)
            if callback is not None:
                callback(result.id, value)
        return [] if callback is not None else values

    join = get

    def maybe_throw(self, **options: Any) -> None:
        for result in self.results:
            result.maybe_throw(**options)

    def iterate(self, timeout: float | None = None, propagate: bool = True) -> Iterator[Any]:
        """The values as they come."""
        waiting, ends_at = list(self.results), None if timeout is None else time.monotonic() + timeout
        while waiting:
            for result in [each for each in waiting if each.ready()]:
                waiting.remove(result)
                yield result.get(propagate=propagate, disable_sync_subtasks=False)
            if ends_at is not None and time.monotonic() > ends_at:
                raise CeleryTimeout("The operation timed out.")
            if waiting:
                time.sleep(POLL_SECONDS)

    def revoke(self, terminate: bool = False, signal: Any = None, **_options: Any) -> None:
        for result in self.results:
            result.revoke(terminate=terminate, signal=signal)

    def forget(self) -> None:
        for result in self.results:
            result.forget()

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def __getitem__(self, index: int) -> Any:
        return self.results[index]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: [{', '.join(str(result) for result in self.results)}]>"


class GroupResult(ResultSet):
    """The results of a group, in the order of its members."""

    def __init__(self, id: str, results: Sequence[Any] = (), parent: Any = None, app: Any = None) -> None:
        super().__init__(results, app=app)
        self.id = id
        self.parent = parent

    @property
    def children(self) -> list[Any]:
        return self.results

    def save(self, backend: Any = None) -> "GroupResult":  # noqa: ARG002 - it is stored with its tasks
        """Nothing to do: a group is stored with its tasks."""
        return self

    def delete(self, backend: Any = None) -> None: ...

    def as_tuple(self) -> Any:
        return (self.id, None if self.parent is None else self.parent.as_tuple()), [r.as_tuple() for r in self.results]

    @classmethod
    def restore(cls, id: str, backend: Any = None, app: Any = None) -> "GroupResult | None":  # noqa: ARG003
        """Find the results of a group that was sent earlier; None if there is none."""
        app = app if app is not None else current_app
        try:
            shape = read_shape(app.stem.store, app.stem.handle(id).status())
        except TaskNotFound:
            return None
        return cls(id, [AsyncResult(each, app=app) for each in shape.tasks(aside=False)], app=app)

    def __bool__(self) -> bool:
        return bool(self.id or self.results)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupResult) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


def result_from_tuple(form: Any, app: Any = None) -> Any:
    """The result of what `as_tuple()` returned."""
    (id, parent), members = form
    above = None if parent is None else result_from_tuple(parent, app)
    if members is not None:
        return GroupResult(id, [result_from_tuple(member, app) for member in members], above, app)
    return AsyncResult(id, app=app, parent=above)
