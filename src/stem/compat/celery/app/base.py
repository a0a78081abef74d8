"""`Celery`: the app. Collects tasks and settings, and makes the Stem app under it when that is first needed."""

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from threading import RLock
from typing import Any, overload

from stem.compat.celery import canvas, current, result
from stem.compat.celery.app.bridged import BridgedStem
from stem.compat.celery.app.conf import CeleryConf
from stem.compat.celery.app.control import CeleryControl
from stem.compat.celery.app.eager import EagerRunner
from stem.compat.celery.app.options import zone
from stem.compat.celery.app.sending import canvas_of, frozen, send
from stem.compat.celery.app.task import CeleryTask
from stem.compat.celery.exceptions import NotRegistered
from stem.compat.celery.refused import APP, NotBridged, refuse
from stem.compat.celery.signals import CelerySignal
from stem.compat.celery.utils import uuid
from stem.core.errors import InvalidTask

_OF_APP = {"broker": "broker_url", "backend": "result_backend", "include": "include"}


class Celery:
    """An app, as Celery's users know it. `app.stem` is the Stem app under it."""

    Task: type[CeleryTask] = CeleryTask

    def __init__(
        self,
        main: str | None = None,
        *,
        broker: str | None = None,
        backend: str | None = None,
        include: Iterable[str] | str | None = None,
        namespace: str | None = None,
        config_source: Any = None,
        task_cls: Any = None,
        changes: Mapping[str, Any] | None = None,
        set_as_current: bool = True,
        **settings: Any,
    ) -> None:
        self.main = main
        self.conf = CeleryConf()
        self.conf.update(changes or {})
        self.conf.update({name: value for name, value in settings.items() if name not in _PARTS})
        given = {"broker": broker, "backend": backend, "include": include}
        self.conf.update({_OF_APP[name]: value for name, value in given.items() if value is not None})
        if task_cls is not None:
            self.Task = task_cls
        if config_source is not None:
            self.conf.add_source(config_source, namespace)
        self.control = CeleryControl(self)
        self.on_configure, self.on_after_configure = CelerySignal("on_configure"), CelerySignal("on_after_configure")
        self.on_after_finalize, self.on_after_fork = CelerySignal("on_after_finalize"), CelerySignal("on_after_fork")
        self._tasks: dict[str, CeleryTask] = {}
        self._packages: list[tuple[Any, str]] = []
        self._periodic: dict[str, dict[str, Any]] = {}
        self._stem: BridgedStem | None = None
        self._eager = EagerRunner(self)
        self._lock = RLock()
        if set_as_current:
            current.set_current(self)

    # The Stem app

    @property
    def stem(self) -> BridgedStem:
        """The Stem app under this one, made when it is first needed; settings count until then."""
        with self._lock:
            if self._stem is None:
                self.on_configure.send(sender=self)
                stem = BridgedStem(self)
                for task in self.tasks.values():
                    stem.add(task)
                self._stem = stem
                self.on_after_configure.send(sender=self, source=self.conf)
                self.on_after_finalize.send(sender=self)
            return self._stem

    @property
    def __stem_app__(self) -> BridgedStem:
        """For `stem worker start --app` and other commands."""
        return self.stem

    # Tasks

    @overload
    def task(self, function: Callable[..., Any], /) -> CeleryTask: ...
    @overload
    def task(self, **options: Any) -> Callable[[Callable[..., Any]], CeleryTask]: ...
    def task(self, *args: Any, **options: Any) -> Any:
        """Make a function a task: `@app.task`, or `@app.task(bind=True, …)`."""
        if len(args) == 1 and callable(args[0]) and not options:
            return self._declared(args[0], {})
        if args:
            raise TypeError("@app.task takes keyword arguments only, such as @app.task(bind=True).")
        return lambda function: self._declared(function, options)

    def register_task(self, task: Any, **options: Any) -> CeleryTask:
        """Register an object of a task class, or the class."""
        made: CeleryTask = task(**options) if isinstance(task, type) else task
        if not made.name:
            made.name = self.gen_task_name(type(made).__name__, type(made).__module__)
        return self.add_task(made)

    def add_task(self, task: CeleryTask) -> CeleryTask:
        if task._app is None and task not in current.shared:
            task._app = self
        name = str(task.name)
        known = self._tasks.setdefault(name, task)
        if self._stem is not None:
            self._stem.add(known)
        return known

    @property
    def tasks(self) -> dict[str, CeleryTask]:
        """The tasks by name, shared ones included."""
        shared = {str(task.name): task for task in (*_built_in(), *current.shared)}
        return _Registry({**shared, **self._tasks})

    def find_task(self, name: str) -> CeleryTask | None:
        return self.tasks.get(name)

    def gen_task_name(self, name: str, module: str) -> str:
        """Module and name; `__main__` is the app's own name, or the file's."""
        if module == "__main__":
            script = getattr(sys.modules.get("__main__"), "__file__", None)
            module = self.main or (os.path.splitext(os.path.basename(script))[0] if script else module)
        return f"{module}.{name}"

    def _declared(self, function: Callable[..., Any], options: Mapping[str, Any]) -> CeleryTask:
        return self.add_task(made_task(function, options, self.Task, self.gen_task_name))

    # Sending

    def send_task(self, name: str, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Send a task by its name; its code may be elsewhere."""
        return self.send_signature(canvas.CelerySignature(name, args, kwargs, options, app=self))

    def send_signature(self, sig: Any) -> Any:
        if self.conf["task_always_eager"]:
            return self._eager.run(sig, throw=bool(self.conf["task_eager_propagates"]))
        return send(self, self.stem, sig)

    def apply_signature(self, sig: Any, throw: bool | None = None, **_options: Any) -> Any:
        """Run a signature here and now."""
        return self._eager.run(sig, throw=bool(self.conf["task_eager_propagates"] if throw is None else throw))

    def canvas_of(self, sig: Any) -> Any:
        """Stem's canvas of a signature."""
        return canvas_of(self, self.stem, frozen(self, sig)[0], is_whole=False)

    def frozen(self, sig: Any) -> Any:
        """Give the tasks of a signature their ids, in place, and return its result."""
        made, found = frozen(self, sig)
        sig.update(made)
        return found

    def signature(self, *args: Any, **kwargs: Any) -> Any:
        return canvas.signature(*args, app=self, **kwargs)

    def AsyncResult(self, id: str, **options: Any) -> result.AsyncResult:
        return result.AsyncResult(id, app=self, **options)

    def GroupResult(self, id: str, results: Any = (), **options: Any) -> result.GroupResult:
        return result.GroupResult(id, results, app=self, **options)

    def ResultSet(self, results: Any, **options: Any) -> result.ResultSet:
        return result.ResultSet(results, app=self, **options)

    # Configuration

    def config_from_object(
        self, obj: Any, silent: bool = False, force: bool = False, namespace: str | None = None
    ) -> None:  # fmt: skip
        """Take settings from a module, an object or a dict; with a namespace those that begin with it."""
        del silent
        self.conf.add_source(obj, namespace)
        if force:
            _ = self.conf.settings

    def config_from_envvar(self, variable_name: str, silent: bool = False, force: bool = False) -> bool:
        """Take settings from the module that an environment variable names."""
        name = os.environ.get(variable_name)
        if not name:
            if silent:
                return False
            raise NotBridged(f"{variable_name} is not set; set it to the module that holds the settings.")
        self.config_from_object(name, force=force)
        return True

    def add_defaults(self, settings: Any) -> None:
        self.conf.add_defaults(settings() if callable(settings) else settings)

    def autodiscover_tasks(self, packages: Any = None, related_name: str = "tasks", force: bool = False) -> None:
        """Import the module `tasks` of these packages, by default of Django's apps, when a worker loads the app."""
        self._packages.append((packages, related_name))
        if force:
            self.stem.load_tasks()

    def take_packages(self) -> Iterator[tuple[Iterable[str], str]]:
        """Packages to look for tasks in; each is given once."""
        while self._packages:
            given, module = self._packages.pop(0)
            found = _django_apps() if given is None else given() if callable(given) else given
            yield [found] if isinstance(found, str) else found, module or "tasks"

    def add_periodic_task(
        self, schedule: Any, sig: Any, args: Any = (), kwargs: Any = None, name: str | None = None, **options: Any
    ) -> str:
        """Send a signature by a schedule."""
        one = canvas.as_signature(sig)
        key = name or repr(one)
        self._periodic[key] = {
            "schedule": schedule,
            "task": one["task"],
            "args": one.args or args,
            "kwargs": one.kwargs or kwargs or {},
            "options": {**one.options, **options},
        }
        return key

    def periodic(self) -> dict[str, dict[str, Any]]:
        """The schedules, by name."""
        return {**self.conf["beat_schedule"], **self._periodic}

    def queues(self) -> list[str]:
        """The queues that the app's tasks use."""
        own = [task.definition.plan.queue for task in self.stem.tasks.values()]
        declared = [str(getattr(queue, "name", queue)) for queue in self.conf["task_queues"] or ()]
        return list(dict.fromkeys([*own, *declared]))

    # What is around it

    @property
    def current_task(self) -> Any:
        found = current.running()
        return None if found is None else found.task

    current_worker_task = current_task

    @property
    def timezone(self) -> Any:
        return zone(self.conf)

    def now(self) -> datetime:
        return datetime.now(UTC).astimezone(self.timezone)

    def uuid(self) -> str:
        return uuid()

    def set_current(self) -> None:
        current.set_current(self)

    set_default = set_current

    def finalize(self, auto: bool = False) -> None:  # noqa: ARG002 - Celery's signature
        _ = self.stem

    def close(self) -> None:
        if self._stem is not None:
            self._stem.close()

    def __enter__(self) -> "Celery":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Celery {self.main or '__main__'} on Stem>"

    def __getattr__(self, name: str) -> Any:
        refuse(APP, "app", name)


class _Registry(dict[str, CeleryTask]):
    """Tasks by name."""

    def __missing__(self, name: str) -> CeleryTask:
        raise NotRegistered(name)

    def regular(self) -> dict[str, CeleryTask]:
        return dict(self)


_PARTS = frozenset(
    {"amqp", "events", "log", "control", "loader", "autofinalize", "fixups", "strict_typing", "tasks", "registry_cls"}
)


def made_task(
    function: Callable[..., Any],
    options: Mapping[str, Any],
    base: type[CeleryTask],
    name_of: Callable[[str, str], str],
) -> CeleryTask:
    """An object of a class of its own, with the options as attributes. Raises InvalidTask."""
    options = dict(options)
    if inspect.iscoroutinefunction(function):
        raise InvalidTask(
            f"Task {function.__qualname__} is an async def, which Celery cannot run; use app.stem's @app.task."
        )
    base, is_bound = options.pop("base", None) or base, options.pop("bind", False)
    name = options.pop("name", None) or name_of(function.__name__, function.__module__)
    _refuse_options(name, options)
    attributes = {
        **options,
        "name": name,
        "is_bound": is_bound,
        "run": function if is_bound else staticmethod(function),
        "abstract": False,
        "__doc__": function.__doc__,
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
    }
    made: CeleryTask = type(function.__name__, (base,), attributes)()
    made.__name__ = function.__name__  # type: ignore[attr-defined]
    return made


@overload
def shared_task(function: Callable[..., Any], /) -> CeleryTask: ...
@overload
def shared_task(**options: Any) -> Callable[[Callable[..., Any]], CeleryTask]: ...
def shared_task(*args: Any, **options: Any) -> Any:
    """Make a function a task of whichever app is current: for packages that make no app of their own."""
    if len(args) == 1 and callable(args[0]) and not options:
        return _shared(args[0], {})
    return lambda function: _shared(function, options)


def _shared(function: Callable[..., Any], options: Mapping[str, Any]) -> CeleryTask:
    made = made_task(function, options, CeleryTask, lambda name, module: f"{module}.{name}")
    current.shared[:] = [task for task in current.shared if task.name != made.name] + [made]
    for app in current.apps():
        if app._stem is not None:
            app._stem.add(made)
    return made


def _refuse_options(name: str, options: Mapping[str, Any]) -> None:
    if options.get("serializer") not in (None, "json"):
        raise NotBridged(
            f"Task {name} has serializer={options['serializer']!r}, and Stem carries JSON only; leave it out."
        )
    if options.get("pydantic"):
        raise NotBridged(f"Task {name} has pydantic=True; annotate a task of app.stem, which decodes models by itself.")


def _django_apps() -> list[str]:
    if not os.environ.get("DJANGO_SETTINGS_MODULE"):
        return []
    from django.apps import apps

    return [config.name for config in apps.get_app_configs()]


def _map(task: str, it: list[Any]) -> list[Any]:
    found = current.current_app.tasks[task]
    return [found(item) for item in it]


def _starmap(task: str, it: list[Any]) -> list[Any]:
    found = current.current_app.tasks[task]
    return [found(*item) for item in it]


def _built_in() -> list[CeleryTask]:
    if not _MAPS:
        _MAPS.extend(
            made_task(function, {"name": name}, CeleryTask, lambda name, _module: name)
            for name, function in ((canvas.MAP, _map), (canvas.STARMAP, _starmap))
        )
    return _MAPS


_MAPS: list[CeleryTask] = []
