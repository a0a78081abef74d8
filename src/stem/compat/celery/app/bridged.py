"""The Stem app under a Celery app: its tasks, routes, schedules and what happens when a worker or scheduler loads it."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from stem import signals as stem_signals
from stem.client.app import Stem
from stem.client.middleware import Middleware
from stem.client.send.sender import Sender
from stem.client.task.signature import FunctionSignature
from stem.compat.celery import signals
from stem.compat.celery.app.conf import CeleryConf, broker_url, check_conf
from stem.compat.celery.app.options import call_options, urgency, zone
from stem.compat.celery.app.task import CeleryTask
from stem.compat.celery.app.trace import handler
from stem.compat.celery.codec import from_wire, wire_call
from stem.compat.celery.refused import NotBridged
from stem.compat.celery.schedules import crontab, maybe_schedule, schedule, solar
from stem.contracts.schedules import ScheduleEntry
from stem.core.decisions.routing import Route
from stem.core.envelope import Envelope
from stem.runtime import process
from stem.runtime.configfile import configured

if TYPE_CHECKING:
    from stem.core.settings.app import Settings


class BridgedStem(Stem):
    """The Stem app that does what a Celery app says. `bridge` is that app."""

    def __init__(self, bridge: Any, *, url: str | None = None, is_eager: bool = False) -> None:
        conf: CeleryConf = bridge.conf
        check_conf(conf)
        super().__init__(
            url or broker_url(conf),
            settings=_settings(conf),
            queue=conf["task_default_queue"],
            max_retries=0,
            routes=list(_routes(conf)),
            include=_modules(conf),
            middleware=[] if is_eager else [Publishing()],
        )
        self.bridge = bridge
        self._is_eager = is_eager
        self._has_declared = self._is_announced = False

    def add(self, task: CeleryTask) -> None:
        """Register a task of the bridge."""
        if task.name not in self.tasks:
            self.task(**task_options(self.bridge.conf, task))(handler(task, is_eager=self._is_eager))

    def any_sender(self, name: str) -> Sender[..., Any]:
        """The sender of a task, also of one whose code is elsewhere: it takes any arguments then."""
        if name in self.tasks:
            return self.tasks[name]
        known = self.sender(name, check=False)
        definition = replace(known.definition, signature=FunctionSignature(name, _anything))
        return Sender(self.store_connection, definition, definition.plan, {})

    def load_tasks(self) -> None:
        """Set Django up if the project has it, import the modules, and tell receivers that the worker begins."""
        _set_django_up()
        for packages, module in self.bridge.take_packages():
            self.autodiscover(list(packages), module=module)
        super().load_tasks()
        if process.imports_for_isolates and not self._is_announced:
            self._is_announced = True
            for signal in (signals.setup_logging, signals.worker_init, signals.worker_ready):
                signal.send(sender=self.bridge)
            if signals.worker_shutdown.has_listeners():
                process.at_worker_end.append(lambda: signals.worker_shutdown.send(sender=self.bridge))

    @property
    def schedules(self) -> list[ScheduleEntry]:
        """Those of beat_schedule and add_periodic_task. Only a scheduler asks for them."""
        if not self._has_declared:
            self._has_declared = True
            self.load_tasks()
            signals.beat_init.send(sender=self.bridge)
            for name, entry in self.bridge.periodic().items():
                self._declare(name, entry)
        return super().schedules

    def _declare(self, name: str, entry: Mapping[str, Any]) -> None:
        task = self.tasks.get(entry["task"])
        if task is None:
            raise NotBridged(
                f"beat_schedule entry {name!r} names the task {entry['task']!r}, which the app does not know; "
                "import its module with include=[…] or autodiscover_tasks()."
            )
        self.schedule(schedule_spec(entry), **schedule_options(self.bridge.conf, name, entry))(task)


class Publishing(Middleware):
    """Sends before_task_publish, whose receivers may change the headers."""

    def enqueue(self, envelope: Envelope) -> Envelope:
        if not signals.before_task_publish.has_listeners(envelope.name):
            return envelope
        own = {"id": envelope.id, "task": envelope.name}
        headers: dict[str, Any] = {**envelope.headers, **own}
        signals.before_task_publish.send(
            sender=envelope.name,
            body=_body(envelope),
            headers=headers,
            properties={"correlation_id": envelope.id, "priority": envelope.priority},
            exchange="",
            routing_key=envelope.queue,
            declare=[],
            retry_policy=None,
        )
        texts = {name: value for name, value in headers.items() if isinstance(value, str) and name not in own}
        return msgspec.structs.replace(envelope, headers=texts)


def task_options(conf: CeleryConf, task: CeleryTask) -> dict[str, Any]:
    """Stem's options of a task. Whether it is retried is decided by the bridge, so a failure that it does not retry is final."""
    annotated = _annotations(conf, task)

    def of(name: str, setting: str | None = None) -> Any:
        found = annotated.get(name, getattr(task, name))
        return conf[setting] if found is None and setting is not None else found

    soft, hard = of("soft_time_limit", "task_soft_time_limit"), of("time_limit", "task_time_limit")
    rate = of("rate_limit", "task_default_rate_limit")
    queue = of("queue")
    options = {
        "name": task.name,
        "queue": None if queue is None else str(getattr(queue, "name", queue)),
        "priority": urgency(conf, of("priority", "task_default_priority")),
        "max_retries": 0,
        "soft_limit": None if soft and hard and soft >= hard else soft,
        "hard_limit": hard,
        "rate_limit": f"{rate:g}/s" if isinstance(rate, int | float) else rate,
        "ignore_result": bool(of("ignore_result", "task_ignore_result")),
    }
    return {**options, **task.stem}


def schedule_spec(entry: Mapping[str, Any]) -> str:
    """Stem's expression of a beat_schedule entry. Raises NotBridged."""
    when = maybe_schedule(entry["schedule"])
    if not isinstance(when, crontab | schedule | solar):
        raise NotBridged(f"A schedule of type {type(when).__name__} has no counterpart; use crontab(…) or seconds.")
    return when.spec


def schedule_options(conf: CeleryConf, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    when = entry["schedule"]
    options: dict[str, Any] = {
        "id": _entry_id(name),
        "args": wire_call(entry.get("args") or (), entry.get("kwargs") or {}),
        "options": call_options(conf, entry.get("options") or {}),
        "time_zone": str(zone(conf)),
    }
    return options | ({"latitude": when.lat, "longitude": when.lon} if hasattr(when, "lat") else {})


def _entry_id(name: str) -> str:
    """An id that Stem allows: letters, digits and some signs."""
    return "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "-" for sign in name).strip("._-")


def _annotations(conf: CeleryConf, task: CeleryTask) -> dict[str, Any]:
    found = conf["task_annotations"] or {}
    if not isinstance(found, Mapping):
        raise NotBridged("task_annotations is no dict; give one, such as {'tasks.add': {'rate_limit': '10/s'}}.")
    return {**found.get("*", {}), **found.get(task.name, {})}


def _settings(conf: CeleryConf) -> "Settings":
    settings, expires = configured(os.environ), conf["result_expires"]
    if expires and "STEM_RESULT_TTL" not in os.environ:
        seconds = expires.total_seconds() if hasattr(expires, "total_seconds") else float(expires)
        settings = msgspec.structs.replace(
            settings, retention=msgspec.structs.replace(settings.retention, results_seconds=max(60.0, seconds))
        )
    return settings


def _routes(conf: CeleryConf) -> Iterable[Route]:
    for pattern, route in glob_routes(conf):
        _refuse_exchange(route)
        priority = route.get("priority")
        queue = route.get("queue")
        yield Route(
            pattern,
            queue=None if queue is None else str(getattr(queue, "name", queue)),
            priority=None if priority is None else urgency(conf, priority),
        )


def glob_routes(conf: CeleryConf) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Routes by name or pattern; functions and regular expressions are asked when a task is sent."""
    for pattern, route in route_items(conf):
        if isinstance(pattern, str):
            yield pattern, {"queue": route} if isinstance(route, str) else route


def route_items(conf: CeleryConf) -> list[tuple[Any, Any]]:
    """All routes in order: pairs of pattern and route, and functions as (function, None)."""
    given = conf["task_routes"]
    found: list[tuple[Any, Any]] = []
    for one in [] if not given else given if isinstance(given, list | tuple) else [given]:
        if isinstance(one, Mapping):
            found += one.items()
        elif callable(one) or isinstance(one, str):
            found.append((one, None) if callable(one) else (_function_at(one), None))
        else:
            found.append(tuple(one))
    return found


def _function_at(path: str) -> Callable[..., Any]:
    from importlib import import_module

    module, _, name = path.replace(":", ".").rpartition(".")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


def _refuse_exchange(route: Mapping[str, Any]) -> None:
    if "queue" not in route and ("exchange" in route or "routing_key" in route):
        raise NotBridged(f"The route {dict(route)!r} names no queue, and Stem has no exchanges; write {{'queue': …}}.")


def _modules(conf: CeleryConf) -> list[str]:
    given = (*_listed(conf["include"]), *_listed(conf["imports"]))
    return list(dict.fromkeys(given))


def _listed(given: Any) -> Iterable[str]:
    return [given] if isinstance(given, str) else given or ()


def _set_django_up() -> None:
    if not os.environ.get("DJANGO_SETTINGS_MODULE"):
        return
    try:
        import django
        from django.apps import apps
    except ImportError:
        return
    if not apps.ready:
        django.setup()


def _body(envelope: Envelope) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    arguments = from_wire(envelope.arguments())
    return arguments.pop("_args", []), arguments, {}


def _anything(_value: Any = None, _args: Any = (), *, _errback: bool = False, **kwargs: Any) -> None: ...


def _isolate_started(_one: stem_signals.IsolateProcess) -> None:
    signals.worker_process_init.send(sender=None)


def _enqueued(call: stem_signals.EnqueuedCall) -> None:
    envelope = call.envelope
    if call.created and signals.after_task_publish.has_listeners(envelope.name):
        signals.after_task_publish.send(
            sender=envelope.name,
            headers={**envelope.headers, "id": envelope.id, "task": envelope.name},
            body=_body(envelope),
            exchange="",
            routing_key=envelope.queue,
        )


signals.worker_process_init.on_connect = lambda: stem_signals.isolate_started.connect(_isolate_started)
signals.after_task_publish.on_connect = lambda: stem_signals.after_enqueue.connect(_enqueued)
