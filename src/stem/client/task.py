"""A function that can also be enqueued."""

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from stem.client.context import TaskContext, current_task
from stem.client.definition import Definition
from stem.client.link import Link
from stem.client.sender import Sender

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Task(Sender[P, R]):
    """Calling it runs the function here and now; `enqueue` stores the call for a worker. R is what the work comes to."""

    def __init__(self, link: Link, definition: Definition) -> None:
        super().__init__(link, definition, definition.plan, {})
        functools.update_wrapper(self, definition.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        value: R = self._called(args, kwargs)
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

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A context that the function takes and the caller does not give is that of the task the caller runs in."""
        function, signature = self.definition.function, self.definition.signature
        if signature is None or signature.context is None or signature.context in kwargs:
            return function(*args, **kwargs)
        if any(isinstance(arg, TaskContext) for arg in args):
            return function(*args, **kwargs)
        given = {name: kwargs[name] for name in signature.given & kwargs.keys()}
        plain = {name: value for name, value in kwargs.items() if name not in given}
        return function(**signature.bind(args, plain), **given, **{signature.context: current_task()})


class AsyncTask(Task[P, R]):
    """A task made of an `async def`: calling it gives the coroutine; R is what awaiting that gives."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:  # type: ignore[override]
        coroutine: Coroutine[Any, Any, R] = self._called(args, kwargs)
        return coroutine


class _NoContext: ...


class TakesAnything(Protocol[P, R_co]):
    """A function whose first parameter is an `object`: it would take a context too, and is not meant to get one."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, first: _NoContext, /, *args: Any, **kwargs: Any) -> R_co: ...


class Decorator(Protocol):
    """What `@app.task(…)` gives back. A context that comes first is no argument of the task."""

    @overload
    def __call__(self, function: TakesAnything[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: TakesAnything[P, R], /) -> Task[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(
        self, function: Callable[Concatenate[TaskContext, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[TaskContext, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
