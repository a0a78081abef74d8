"""A task: a function that can also be enqueued."""

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from stem.client.run.context import TaskContext, current_task
from stem.client.send.sender import Sender
from stem.client.store_connection import StoreConnection
from stem.client.task.definition import Definition

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Task(Sender[P, R]):
    """Calling it runs the function here and now; `enqueue` stores the call for a worker. R is the type of its value."""

    def __init__(self, store_connection: StoreConnection, definition: Definition) -> None:
        super().__init__(store_connection, definition, definition.plan, {})
        functools.update_wrapper(self, definition.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        value: R = self._called(args, kwargs)
        return value

    def __repr__(self) -> str:
        return f"Task({self.name!r})"

    def __reduce__(self) -> str:
        """Pickle by name, as functions are: the module at the other end brings the app."""
        return str(vars(self)["__qualname__"])

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def is_async(self) -> bool:
        return isinstance(self, AsyncTask)

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function here. A context that the caller does not pass is that of the running task."""
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
    """A function whose first parameter is an `object`: it would accept a context but must not get one."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, first: _NoContext, /, *args: Any, **kwargs: Any) -> R_co: ...


class Decorator(Protocol):
    """The type of `@app.task(…)`. A context as the first parameter is not an argument of the task."""

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
