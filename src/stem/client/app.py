"""The app: settings, store connection, keys and the registry of tasks."""

import inspect
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

import msgspec

from stem.client.canvas.canvas import Canvas
from stem.client.canvas.handle import CanvasHandle
from stem.client.canvas.submit import submit
from stem.client.middleware import Hooks, Middleware
from stem.client.run.context import TaskContext
from stem.client.schedules.declare import ScheduleOptions, declared_entry
from stem.client.send.handle import TaskHandle
from stem.client.send.sender import Sender, result_of
from stem.client.store_connection import StoreConnection
from stem.client.task.definition import defaults, define, elsewhere, routed, same_function
from stem.client.task.hints import OF_APPS, missing, option_meant
from stem.client.task.options import CallOptions, Classes, Duration, TaskOptions
from stem.client.task.policy import RetryOption
from stem.client.task.task import AsyncTask, Decorator, TakesAnything, Task
from stem.contracts.schedules import ScheduleEntry
from stem.contracts.store import Store
from stem.core.decisions.retry import Exponential
from stem.core.decisions.routing import Route, Routes
from stem.core.errors import ConfigError, InvalidTask, UnknownTask
from stem.core.record import TaskRecord
from stem.core.settings.app import Settings, check_settings
from stem.core.settings.routes import routes_of_code
from stem.runtime.clock import Clock, system_clock
from stem.runtime.configfile import configured
from stem.runtime.keys import Keyring

if TYPE_CHECKING:
    from stem.client.control import Control
    from stem.client.subscription import EventSubscriptions

P = ParamSpec("P")
R = TypeVar("R")
TaskT = TypeVar("TaskT", bound=Task[..., Any])


class Stem:
    """An app and its tasks. Settings come from the arguments, else from `settings` (default: the environment, then the file
    that STEM_CONFIG names or `stem.yaml` in the working directory), else from Stem's defaults.

    Nothing is opened until the store is first needed. Threads may share an app; a forked child opens a store of its own.
    """

    connection_class = StoreConnection  # an integration may have one that knows its transactions

    def __init__(
        self,
        broker_url: str | None = None,
        *,
        results_url: str | None = None,
        namespace: str | None = None,
        settings: Settings | None = None,
        queue: str = "default",
        max_retries: int = 3,
        retry: RetryOption = Exponential(),  # noqa: B008 - frozen
        retry_on: Classes | None = None,
        no_retry_on: Classes | None = None,
        soft_limit: Duration | None = None,
        hard_limit: Duration | None = None,
        middleware: Iterable[Middleware] = (),
        include: Iterable[str] = (),
        signing_keys: str | None = None,
        fair_share: bool | None = None,
        routes: Iterable[Route | Mapping[str, Any]] = (),
        max_args_bytes: int | None = None,
        max_result_bytes: int | None = None,
        clock: Clock = system_clock,
    ) -> None:
        configuration = settings if settings is not None else configured(os.environ)
        self.settings = _merged(
            configuration,
            broker_url=broker_url,
            results_url=results_url,
            namespace=namespace,
            signing_keys=signing_keys,
            fair_share=fair_share,
            routes=(*routes_of_code(routes), *configuration.routes),  # those of the code come first
            max_args_bytes=max_args_bytes,
            max_result_bytes=max_result_bytes,
        )
        self.defaults = defaults(
            queue=queue,
            max_retries=max_retries,
            retry=retry,
            retry_on=retry_on,
            no_retry_on=no_retry_on,
            soft_limit=soft_limit,
            hard_limit=hard_limit,
        )
        self.store_connection = self.connection_class(self.settings, Keyring.parse(self.settings.signing_keys), clock)
        self.store_connection.hooks = Hooks(middleware)
        self._routes = Routes(self.settings.routes)
        self._tasks: dict[str, Task[..., Any]] = {}
        self._tasks_seen = MappingProxyType(self._tasks)
        self._schedules: dict[str, ScheduleEntry] = {}
        self._include = [(name, False) for name in _names("include", include)]  # and whether it may be missing

    @property
    def store(self) -> Store:
        """The store, opened on first use. Raises ConfigError, StoreUnavailable, StoreRefused."""
        return self.store_connection.store

    @property
    def control(self) -> "Control":
        """Commands to live workers: `app.control.ping()`, `.stats()`, `.revoke(id)`, `.pause("mail")` …"""
        from stem.client.control import Control  # here: few processes steer

        return Control(self.store_connection)

    @property
    def events(self) -> "EventSubscriptions":
        """Follow what happens to tasks and workers anywhere: `for event in app.events.subscribe(): …`"""
        from stem.client.subscription import EventSubscriptions  # here: few processes follow events

        return EventSubscriptions(self.store_connection)

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        return self._tasks_seen

    def use(self, middleware: Middleware) -> None:
        """Append a middleware. It applies to everything sent and run from now on. Raises UsageError."""
        self.store_connection.hooks = Hooks([*self.store_connection.hooks.middleware, middleware])

    @overload
    def task(self, function: TakesAnything[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: TakesAnything[P, R], /) -> Task[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def task(self, function: Callable[Concatenate[TaskContext, P], Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[TaskContext, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: None = None, /, **options: Unpack[TaskOptions]) -> Decorator: ...
    def task(self, function: Any = None, /, **options: Unpack[TaskOptions]) -> Any:
        """Make a function a task: `@app.task`, or `@app.task(queue="mail", max_retries=5, …)`.

        Its name is the function's module and qualified name unless `name` says otherwise; the name travels with the
        call, so give one if the code may move. Raises InvalidTask.
        """
        if not isinstance(self, Stem):
            raise InvalidTask("Stem.task is used without an app; make one first: app = Stem(), then @app.task.")
        if function is not None:
            return self._register(function, options)
        return lambda decorated: self._register(decorated, options)

    @property
    def schedules(self) -> list[ScheduleEntry]:
        """The schedules that the code declares."""
        return list(self._schedules.values())

    def schedule(self, spec: str, /, **options: Unpack[ScheduleOptions]) -> Callable[[TaskT], TaskT]:
        """Enqueue a task by the calendar: `@app.schedule("0 2 * * *")` above `@app.task`, once or several times.

        A running `stem beat` stores the entry and enqueues it. Raises InvalidSchedule, InvalidTask, InvalidArguments.
        """
        if not isinstance(spec, str):
            raise InvalidTask('@app.schedule needs an expression, such as @app.schedule("0 2 * * *"), above @app.task.')

        def declare(task: TaskT) -> TaskT:
            entry = declared_entry(task, spec, options)
            if entry.id in self._schedules:
                raise InvalidTask(
                    f"Two schedules have the id {entry.id}; give one of them another: @app.schedule(…, id=…)."
                )
            self._schedules[entry.id] = entry
            return task

        return declare

    def enqueue(
        self, name: str, /, args: Mapping[str, Any] | None = None, *, check: bool = True, **options: Unpack[CallOptions]
    ) -> TaskHandle[Any]:
        """Enqueue a task by its name. `check=False` allows a task whose code is elsewhere. Raises UnknownTask, InvalidTask."""
        return self.sender(name, check=check).options(**options).send({} if args is None else args)

    async def aenqueue(
        self, name: str, /, args: Mapping[str, Any] | None = None, *, check: bool = True, **options: Unpack[CallOptions]
    ) -> TaskHandle[Any]:
        return await self.sender(name, check=check).options(**options).asend({} if args is None else args)

    def submit(self, canvas: Canvas[R], *args: Any, connection: object | None = None, **kwargs: Any) -> CanvasHandle[R]:
        """Submit a canvas, as `canvas.submit` does; also an empty one, which knows no app. Raises InvalidTask."""
        return submit(canvas, self.store_connection, args, kwargs, connection=connection)

    def canvas(self, canvas_id: str) -> CanvasHandle[Any]:
        """Return a handle to a canvas that was submitted earlier, here or elsewhere. Looks nothing up."""
        return CanvasHandle(self.store_connection, canvas_id)

    def canvas_of(self, form: Mapping[str, Any], *, check: bool = True) -> Canvas[Any]:
        """Make a canvas of its JSON form, which `canvas.to_dict()` writes. `check=False` allows tasks whose code is
        elsewhere. Raises UnknownTask, InvalidTask."""
        from stem.client.canvas.reading import read_canvas  # here: few read one

        return read_canvas(form, lambda name: self.sender(name, check=check))

    def handle(self, task_id: str) -> TaskHandle[Any]:
        """Return a handle to a task that was enqueued earlier, here or elsewhere. Looks nothing up."""
        return TaskHandle(self.store_connection, task_id, self._result)

    def send_event(self, task_id: str, name: str, data: Any = None) -> None:
        """Send an event to a task that waits for it, now or later (`ctx.wait_event`). The first event of a name counts; sending
        it again changes nothing. Raises TaskNotFound, TaskEnded, InvalidArguments."""
        from stem.client.send.events import send_event

        send_event(self.store_connection, task_id, name, data)

    async def asend_event(self, task_id: str, name: str, data: Any = None) -> None:
        import asyncio

        await asyncio.to_thread(self.send_event, task_id, name, data)

    def bulk(self, name: str) -> Any:
        """Run a task over a whole DataFrame on Spark: `app.bulk("image.resize").over(df)`. Needs the extra `spark`.
        Raises UnknownTask, InvalidTask."""
        from stem.contracts.engine import load  # here: few apps have one

        return load("spark").bulk(self, name)

    def autodiscover(self, packages: Iterable[str], *, module: str = "tasks") -> None:
        """Include the module `tasks` of each package that has one. As with `Stem(include=[…])`, it is imported when a
        worker loads the app, or when a task is looked up by a name that is not known yet."""
        self._include += [(f"{package}.{module}", True) for package in _names("packages", packages)]

    def load_tasks(self) -> None:
        """Import the modules that the app includes. Raises ConfigError."""
        from stem.client.user_modules import import_tasks  # here: importlib's machinery is not needed to enqueue

        while self._include:
            name, may_be_missing = self._include.pop(0)
            import_tasks(name, may_be_missing=may_be_missing)

    def close(self) -> None:
        """Close the store, if it was opened. Using the app again opens it again."""
        self.store_connection.close()

    if not TYPE_CHECKING:  # a type checker would take any name

        def __getattr__(self, name: str) -> Any:
            raise missing(self, name, OF_APPS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self.close()

    def _register(self, function: Callable[..., Any], options: TaskOptions) -> Task[..., Any]:
        if unknown := options.keys() - TaskOptions.__annotations__.keys():
            hint = option_meant(min(unknown), TaskOptions.__annotations__)
            raise InvalidTask(f"There is no task option {min(unknown)!r}{hint}")
        definition = routed(define(function, self.defaults, options), self._routes)
        for name in (definition.name, *definition.aliases):
            known = self._tasks.get(name)
            if known is not None and not same_function(known.definition.function, function):
                raise InvalidTask(
                    f"Two functions have the task name {name}; give one of them another name: @app.task(name=…)."
                )
        kind = AsyncTask if inspect.iscoroutinefunction(function) else Task
        task: Task[..., Any] = kind(self.store_connection, definition)
        self._tasks |= dict.fromkeys((definition.name, *definition.aliases), task)
        return task

    def sender(self, name: str, *, check: bool = True) -> Sender[..., Any]:
        """Return the sender of the task of that name. Raises UnknownTask, unless `check` is False."""
        if name in self._tasks:
            return self._tasks[name]
        if check:
            self.load_tasks()
            if name in self._tasks:
                return self._tasks[name]
            raise UnknownTask(self._unknown(name))
        definition = routed(elsewhere(name, self.defaults), self._routes)
        return Sender(self.store_connection, definition, definition.plan, {})

    def _unknown(self, name: str) -> str:
        from difflib import get_close_matches

        near = get_close_matches(str(name), self._tasks, n=1)
        hint = f"did you mean {near[0]}?" if near else "import the module that defines it, or enqueue with check=False."
        return f"No task named {name!r} is registered with this app; {hint}"

    def _result(self, record: TaskRecord) -> Any:
        task = self._tasks.get(record.name)
        return result_of(record, task.definition if task is not None else None)


def _names(what: str, modules: Any) -> list[str]:
    names = [] if isinstance(modules, str) else list(modules)
    if isinstance(modules, str) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f'{what} is {modules!r}; give a list of names: {what}=["shop.tasks"].')
    return names


def _merged(settings: Settings, **overrides: Any) -> Settings:
    given = {name: value for name, value in overrides.items() if value is not None}
    return check_settings(msgspec.structs.replace(settings, **given))
