"""A backend for Django's own tasks framework: `django.tasks` of Django 6, or the package django-tasks before it.

Each Django task becomes a task of Stem's with the name of its function, so that everything of Stem's applies to it.
"""

import os
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from inspect import iscoroutinefunction
from typing import Any

from django.utils import timezone

from stem.client.run.context import TaskContext
from stem.core.errors import TaskNotFound
from stem.core.ids import uuid7
from stem.core.lifecycle import State
from stem.core.record import TaskRecord
from stem.integrations.django.application import project_app

_FRAMEWORK = "django.tasks" if find_spec("django.tasks") is not None else "django_tasks"
_base: Any = import_module(f"{_FRAMEWORK}.base")
_signals: Any = import_module(f"{_FRAMEWORK}.signals")
_exceptions: Any = import_module(f"{_FRAMEWORK}.exceptions")
_Backend: Any = import_module(f"{_FRAMEWORK}.backends.base").BaseTaskBackend

ARGUMENTS = "djangoArguments"  # in a task's meta: what Django's results show
_STATUS = {State.RUNNING: "RUNNING", State.SUCCEEDED: "SUCCESSFUL", State.FAILED: "FAILED", State.CANCELLED: "FAILED"}

_known: dict[str, Any] = {}  # Django's tasks by their path


class StemBackend(_Backend):  # type: ignore[misc]
    """`TASKS = {"default": {"BACKEND": "stem.integrations.django.task_backend.StemBackend"}}`

    OPTIONS are those of `@app.task`, such as `max_retries`, which is 0 here unless it is given: Django promises no retries.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Any) -> None:
        """Django calls this for each task that it makes, so this is where Stem gets to know them."""
        super().validate_task(task)
        _known.setdefault(task.module_path, task)
        app = project_app()
        if task.module_path not in app.tasks:
            options = {"max_retries": 0, **self.options}
            app.task(name=task.module_path, queue=task.queue_name, **options)(_handler(task, type(self)))

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        self.validate_task(task)
        result = _result(task, _new_id(), self.alias, list(args), dict(kwargs), enqueued_at=timezone.now())
        arguments = {"args": result.args, "kwargs": result.kwargs}
        project_app().sender(task.module_path).options(
            id=result.id,
            queue=task.queue_name,
            priority=_priority(task.priority),
            not_before=_aware(task.run_after),
            meta={ARGUMENTS: arguments},
        ).send(arguments)
        _signals.task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        app = project_app()
        try:
            record = app.handle(result_id).status()
        except TaskNotFound as error:
            raise _exceptions.TaskResultDoesNotExist(result_id) from error
        if record.name not in _known:
            app.load_tasks()
        if record.name not in _known:
            raise _exceptions.TaskResultDoesNotExist(result_id)
        return _result_of(record, _known[record.name], self.alias)


def _handler(task: Any, sender: type) -> Callable[..., Any]:
    """What Stem runs: the function between Django's signals."""

    def run(ctx: TaskContext, args: list[Any], kwargs: dict[str, Any]) -> Any:
        result, given = _begun(task, ctx, args, kwargs)
        _signals.task_started.send(sender, task_result=result)
        try:
            value = task.func(*given, **kwargs)
        except BaseException:
            _signals.task_finished.send(sender, task_result=_ended(result, "FAILED"))
            raise
        _signals.task_finished.send(sender, task_result=_ended(result, "SUCCESSFUL"))
        return value

    async def run_async(ctx: TaskContext, args: list[Any], kwargs: dict[str, Any]) -> Any:
        result, given = _begun(task, ctx, args, kwargs)
        await _signals.task_started.asend(sender, task_result=result)
        try:
            value = await task.func(*given, **kwargs)
        except BaseException:
            await _signals.task_finished.asend(sender, task_result=_ended(result, "FAILED"))
            raise
        await _signals.task_finished.asend(sender, task_result=_ended(result, "SUCCESSFUL"))
        return value

    chosen: Callable[..., Any] = run_async if iscoroutinefunction(task.func) else run
    chosen.__module__, chosen.__qualname__ = task.func.__module__, task.func.__qualname__
    return chosen


def _begun(task: Any, ctx: TaskContext, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The result of a task that has started, and its positional arguments."""
    result = _result(task, ctx.id, task.backend, args, kwargs, status="RUNNING", started_at=timezone.now())
    result.worker_ids.extend([ctx.worker] * (ctx.attempt + 1))
    context = [_base.TaskContext(task_result=result)] if task.takes_context else []
    return result, [*context, *args]


def _ended(result: Any, status: str) -> Any:
    object.__setattr__(result, "status", _base.TaskResultStatus[status])
    object.__setattr__(result, "finished_at", timezone.now())
    return result


def _result(
    task: Any,
    result_id: str,
    backend: str,
    args: list[Any],
    kwargs: dict[str, Any],
    *,
    status: str = "READY",
    **times: Any,
) -> Any:
    moments = dict.fromkeys(("enqueued_at", "started_at", "finished_at"))
    return _base.TaskResult(
        task=task,
        id=result_id,
        status=_base.TaskResultStatus[status],
        args=args,
        kwargs=kwargs,
        backend=backend,
        errors=[],
        worker_ids=[],
        last_attempted_at=times.get("started_at"),
        **{**moments, **times},
    )


def _result_of(record: TaskRecord, task: Any, backend: str) -> Any:
    arguments = record.meta.get(ARGUMENTS) or {"args": [], "kwargs": {}}
    result = _result(
        task,
        record.id,
        backend,
        arguments["args"],
        arguments["kwargs"],
        status=_STATUS.get(record.state, "READY"),
        enqueued_at=record.enqueued_at,
        started_at=record.started_at,
        finished_at=record.finished_at,
    )
    if record.worker is not None:
        result.worker_ids.extend([record.worker] * (record.attempt + 1))
    if record.error is not None and record.state is not State.SUCCEEDED:
        kind = record.error.type
        path = kind if "." in kind else f"builtins.{kind}"
        result.errors.append(_base.TaskError(exception_class_path=path, traceback=record.error.stack))
    object.__setattr__(result, "_return_value", record.result())
    return result


def _priority(number: int) -> int:
    """Django's -100 to 100 as Stem's 0 to 9; both have their default in the middle."""
    return round(5 + number * (4 if number > 0 else 5) / 100)


def _aware(moment: Any) -> Any:
    return timezone.make_aware(moment) if moment is not None and timezone.is_naive(moment) else moment


def _new_id() -> str:
    return uuid7(time.time(), os.urandom(10))
