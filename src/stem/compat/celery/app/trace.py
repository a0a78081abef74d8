"""Runs a task of the bridge inside one of Stem's attempts: request, hooks, signals, retries, value."""

import functools
from collections.abc import Callable
from inspect import Parameter, Signature
from inspect import signature as parameters_of
from traceback import format_exception
from typing import Any

from stem.client.run.context import RetryRequested, TaskContext
from stem.client.run.steps import Suspension
from stem.compat.celery import current, signals, states
from stem.compat.celery.app.request import CallRequest, request_of
from stem.compat.celery.app.task import CeleryTask, retry_delay
from stem.compat.celery.codec import from_wire, to_wire
from stem.compat.celery.exceptions import Ignore, Reject, Retry
from stem.compat.celery.failures import ExceptionInfo, described, exception_of
from stem.core.errors import Drop, TaskRevoked
from stem.core.prerequisites import FailedResult, first_cause
from stem.core.record import TaskError

NOTHING: Any = object()
REQUEUE_SECONDS = 1.0
_NO_RETURN = (None, states.RETRY, states.IGNORED, states.REJECTED)  # as in Celery
REASON_CHARACTERS = 7000  # of a message that Stem records

# Any call fits: `_value` is that of the task before, in front of the positional arguments; `_errback` says it is a failure.
_PARAMETERS = Signature(
    [
        Parameter("_context", Parameter.POSITIONAL_OR_KEYWORD),
        Parameter("_value", Parameter.POSITIONAL_OR_KEYWORD, default=NOTHING),
        Parameter("_args", Parameter.POSITIONAL_OR_KEYWORD, default=()),
        Parameter("_errback", Parameter.KEYWORD_ONLY, default=False),
        Parameter("kwargs", Parameter.VAR_KEYWORD),
    ]
)


def handler(task: CeleryTask, *, is_eager: bool = False) -> Callable[..., Any]:
    """The function that Stem registers for a task."""

    @functools.wraps(task.run)
    def call(
        _context: TaskContext, _value: Any = NOTHING, _args: Any = (), _errback: bool = False, **kwargs: Any
    ) -> Any:
        args = [from_wire(each) for each in _args]
        if _errback and _value is not NOTHING:
            args = [*_failure_arguments(task, _value, args), *args]
        elif _value is not NOTHING:
            args = [from_wire(_value), *args]
        request = request_of(_context, task.app.conf, args, from_wire(kwargs), is_eager=is_eager)
        with current.run(task, request) as running:
            return to_wire(_Attempt(task, request, running).run())

    made: Any = call
    made.__wrapped__ = getattr(task.run, "__func__", task.run)  # the plain function, for tracebacks and reloads
    made.__signature__ = _PARAMETERS
    made.__annotations__ = {"_context": TaskContext}
    return call


class _Attempt:
    """One attempt of a task."""

    def __init__(self, task: CeleryTask, request: CallRequest, running: current.RunningCall) -> None:
        self._task, self._request, self._running = task, request, running
        self._call: tuple[Any, Any, Any] = (request.id, request.args, request.kwargs)

    def run(self) -> Any:
        task, (task_id, args, kwargs) = self._task, self._call
        signals.task_prerun.send(sender=task, task_id=task_id, task=task, args=args, kwargs=kwargs)
        value: Any = None
        state: str | None = None
        info: ExceptionInfo | None = None
        try:
            value = self._called()
            state = states.SUCCESS
            task.on_success(value, *self._call)
            signals.task_success.send(sender=task, result=value)
            return value
        except Retry as asked:
            state, value, info = states.RETRY, asked.exc or asked, _info(asked.exc or asked)
            self._retry(asked, info)
        except (Ignore, Reject) as asked:
            state, value = states.IGNORED if isinstance(asked, Ignore) else states.REJECTED, asked
            _leave(asked)
        except TaskRevoked:
            state = states.REVOKED
            signals.task_revoked.send(
                sender=task, request=self._request, terminated=True, signum="SIGTERM", expired=False
            )
            raise
        except Exception as error:
            state, value, info = states.FAILURE, error, _info(error)
            self._failed(error, info)
            raise
        finally:
            if state not in _NO_RETURN:
                task.after_return(state, value, *self._call, info)
            signals.task_postrun.send(
                sender=task, task_id=task_id, task=task, args=args, kwargs=kwargs, retval=value, state=state
            )

    def _called(self) -> Any:
        task, (task_id, args, kwargs) = self._task, self._call
        task.before_start(task_id, args, kwargs)
        if type(task).__call__ is CeleryTask.__call__:
            self._running.is_entered = True
            function: Callable[..., Any] = task.run
        else:
            function = task.__call__  # a class of the project's has overridden it
        try:
            return function(*args, **kwargs)
        except (Ignore, Reject, Retry):
            raise
        except Exception as error:
            asked = task.autoretry(error)
            if asked is None:
                raise
            raise asked from error

    def _retry(self, asked: Retry, info: ExceptionInfo) -> None:
        task, attempt = self._task, self._request.retries
        task.on_retry(asked.exc or asked, *self._call, info)
        signals.task_retry.send(sender=task, request=self._request, reason=asked, einfo=info)
        reason = str(asked) if asked.exc is None else described(asked.exc)
        # Whether it may be retried once more was decided by Celery's rules, where it was asked for.
        raise RetryRequested(retry_delay(asked, task.default_retry_delay), reason[:REASON_CHARACTERS], attempt + 1)

    def _failed(self, error: BaseException, info: ExceptionInfo) -> None:
        if self._request.is_eager:
            current.eager_errors[str(self._request.id)] = error
        task, (task_id, args, kwargs) = self._task, self._call
        task.on_failure(error, task_id, args, kwargs, info)
        signals.task_failure.send(
            sender=task,
            task_id=task_id,
            exception=error,
            args=args,
            kwargs=kwargs,
            traceback=error.__traceback__,
            einfo=info,
        )


def _leave(asked: Ignore | Reject) -> None:
    """End the attempt without success or failure; what is rejected for good becomes a dead letter."""
    if isinstance(asked, Ignore):
        raise Drop(str(asked) or "ignored")
    if asked.requeue:
        raise Suspension(REQUEUE_SECONDS, None, f"rejected: {asked.reason}")
    raise asked


def _info(error: BaseException) -> ExceptionInfo:
    return ExceptionInfo(error, "".join(format_exception(error)))


def _failure_arguments(task: CeleryTask, value: Any, given: list[Any]) -> list[Any]:
    """What an error callback gets: the id of the failed task, or its request, exception and traceback if it takes more."""
    failed_id, error = _failure(task, value)
    if task.is_bound or _positional(task) - len(given) <= 1:
        return [failed_id]
    request = CallRequest(id=failed_id, task=str(value.get("name")), called_directly=False)
    return [request, exception_of(error), error.stack if error is not None else None]


def _failure(task: CeleryTask, value: Any) -> tuple[str, TaskError | None]:
    """The id of the task that failed first, and its error."""
    failed = FailedResult(value["id"], value["name"], value["state"], _error(value.get("error")), value["cause"])
    if first_cause(failed.error) is None:
        return failed.id, failed.error
    record = task.app.stem.store.results.get([failed.cause], past_retention=True).get(failed.cause)
    return failed.cause, failed.error if record is None else record.error


def _error(form: Any) -> TaskError | None:
    return None if not isinstance(form, dict) else TaskError(form["type"], form["message"], form.get("stack", ""))


def _positional(task: CeleryTask) -> float:
    """How many positional arguments the function takes."""
    parameters = parameters_of(task.run).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return float("inf")
    return sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters)
