"""A function that can also be enqueued."""

import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from stem.client.definition import Definition
from stem.client.link import Link
from stem.client.sender import Sender

P = ParamSpec("P")
R = TypeVar("R")


class Task(Sender[P, R]):
    """Calling it runs the function here and now; `enqueue` stores the call for a worker. R is what the work comes to."""

    def __init__(self, link: Link, definition: Definition) -> None:
        super().__init__(link, definition, definition.plan, {})
        functools.update_wrapper(self, definition.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        value: R = self.definition.function(*args, **kwargs)
        return value

    def __repr__(self) -> str:
        return f"Task({self.name!r})"

    def __reduce__(self) -> str:
        """By its name, as a function is pickled: the module at the other end brings the app."""
        return str(vars(self)["__qualname__"])

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def is_async(self) -> bool:
        return isinstance(self, AsyncTask)


class AsyncTask(Task[P, R]):
    """A task made of an `async def`: calling it gives the coroutine; R is what awaiting that gives."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:  # type: ignore[override]
        coroutine: Coroutine[Any, Any, R] = self.definition.function(*args, **kwargs)
        return coroutine


class Decorator(Protocol):
    """What `@app.task(…)` gives back."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
