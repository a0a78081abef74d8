"""Runs an admitted call inside its middleware and returns the outcome."""

from collections.abc import Callable, Coroutine
from functools import partial
from inspect import unwrap
from typing import Any, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from stem.client.run import django_connections
from stem.client.run.admit import Admitted
from stem.client.run.context import ChainEndRequested, ReplaceRequested, RetryRequested, TaskContext
from stem.client.run.engines import engine
from stem.client.run.steps import Suspension
from stem.core.errors import Drop, InvalidArguments, TaskRevoked
from stem.core.outcome import Raised, Replaced, Returned, Revoked, Suspended
from stem.core.record import TaskError
from stem.core.text.encode import encode_json
from stem.core.text.sensitive import without_values

E = TypeVar("E", bound=BaseException)
Ended = Returned | Raised | Revoked | Replaced | Suspended

MAX_MESSAGE, MAX_STACK = 8_000, 32_000

_NO_VALUE = Raw(b"null")
_PLAIN = frozenset(
    {type(None), bool, int, float, str, list, dict}
)  # never coroutines; checked first because it is fast


def invoke(call: Admitted, context: TaskContext, *, catch_interrupts: bool) -> Ended:
    """Run the function, sync or async, to its end. Whatever it raises becomes an outcome, a KeyboardInterrupt only if
    `catch_interrupts`; and so does whatever a signal raises, wherever it strikes, while the context `is_running`."""
    django_connections.close_stale()
    try:
        try:
            context.is_running = True
            if call.hooks.middleware:
                call.hooks.consume(context)
                with call.hooks.around(context):
                    value = _called(call, context)
            else:
                value = _called(call, context)
        finally:
            context.is_running = False
    except BaseException as error:  # a task may raise anything
        context.is_running = False  # once more: the first time may have been cut off
        if not catch_interrupts and isinstance(error, KeyboardInterrupt):
            raise
        return _discreet(call, _ended(call, context, error))
    finally:
        django_connections.close_stale()
    return _returned(call, value)


async def ainvoke(call: Admitted, context: TaskContext, *, catch_interrupts: bool) -> Ended:
    """As `invoke`, on the caller's loop. When the caller is cancelled, that is raised and no outcome."""
    try:
        await django_connections.coroutine_begins()
        try:
            context.is_running = True
            call.hooks.consume(context)
            with call.hooks.around(context):
                value = call.function(**_arguments(call, context))
                if isinstance(value, Coroutine):
                    value = await value
        finally:
            context.is_running = False
    except BaseException as error:  # a task may raise anything
        context.is_running = False
        if (not catch_interrupts and isinstance(error, KeyboardInterrupt)) or _is_asked_for(error):
            raise
        return _discreet(call, _ended(call, context, _uncancelled(error)))
    finally:
        django_connections.coroutine_ended()
    return _returned(call, value)


def raised(
    error: BaseException,
    function: Callable[..., Any],
    *,
    retry_on: tuple[type[BaseException], ...] | None = None,
    no_retry_on: tuple[type[BaseException], ...] = (),
) -> Raised:
    """Return the failure as it is recorded. The recorded stack begins at `function`. An error is retryable if its class is
    in `retry_on` (None: all) and not in `no_retry_on`, unless its own `retryable` is False."""
    is_of_a_class = retry_on is None or isinstance(error, retry_on)
    return Raised(
        TaskError(
            _name(type(error)),
            _plain(_message(error), MAX_MESSAGE),
            _plain(_stack(error, function), MAX_STACK),
            retryable=is_of_a_class and not isinstance(error, no_retry_on) and _is_retryable(error),
        )
    )


def _called(call: Admitted, context: TaskContext) -> Any:
    name = call.definition.engine
    if name is None:
        return _finished(call.function(**_arguments(call, context)))
    signature = call.definition.signature
    filled = None if signature is None else signature.filled
    return engine(name).run(partial(call.function, **_arguments(call, context)), filled, context)


def _arguments(call: Admitted, context: TaskContext) -> dict[str, Any]:
    name = call.context_name
    return call.arguments if name is None else {**call.arguments, name: context}


def _returned(call: Admitted, value: Any) -> Returned | Raised:
    """Encode the result. One that is no JSON or not of the annotated type fails without a retry: it would not change."""
    if call.definition.ignore_result:
        return Returned(_NO_VALUE)
    returned = _encoded(call, value)
    signature = call.definition.signature
    if signature is None or isinstance(returned, Raised):
        return returned
    fault = signature.result_fault(returned.payload)
    if fault is None:
        return returned
    return Raised(TaskError("ResultTypeMismatch", without_values(fault, call.sensitive_values)))


def _encoded(call: Admitted, value: Any) -> Returned | Raised:
    try:
        return Returned(encode_json(value, what="the result", limit_bytes=call.limit_bytes, option="max_result_bytes"))
    except InvalidArguments as error:
        return Raised(TaskError("UnserialisableResult", str(error)))


def _ended(call: Admitted, context: TaskContext, error: BaseException) -> Ended:
    """Turn an exception into an outcome. Revokes and what `ctx` raises to leave the handler are not errors and call no
    `error` hook."""
    if (revoke := _found(TaskRevoked, error)) is not None:
        return Revoked(_plain(_message(revoke), MAX_MESSAGE) or "revoked")
    if (drop := _found(Drop, error)) is not None:
        return Revoked(_plain(_message(drop), MAX_MESSAGE) or "dropped")
    if (suspension := _found(Suspension, error)) is not None:
        return Suspended(suspension.delay_seconds, suspension.event, _message(suspension))
    if (request := _found(RetryRequested, error)) is not None:
        recorded = TaskError("RetryRequested", _plain(_message(request), MAX_MESSAGE), retryable=True)
        return Raised(recorded, request.delay_seconds, request.max_retries)
    if (replaced := _found(ReplaceRequested, error)) is not None:
        return Replaced(replaced.by)
    if (ended := _found(ChainEndRequested, error)) is not None:
        return _encoded(call, ended.value)
    call.hooks.error(context, error)
    task = call.definition
    return raised(error, task.function, retry_on=task.retry_on, no_retry_on=task.no_retry_on)


def _discreet(call: Admitted, ended: Ended) -> Ended:
    """Mask sensitive values in what the task said of its failure, before anything else sees that."""
    if not (values := call.sensitive_values):
        return ended
    match ended:
        case Raised(error=error):
            message, stack = without_values(error.message, values), without_values(error.stack, values)
            return replace(ended, error=replace(error, message=message, stack=stack))
        case Revoked(reason) | Suspended(reason=reason):
            return replace(ended, reason=without_values(reason, values))
        case _:
            return ended


def _found(kind: type[E], error: BaseException) -> E | None:
    """Find an error of that class, also inside an exception group: a TaskGroup wraps what its members raise."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := _found(kind, each)) is not None), None)
    return error if isinstance(error, kind) else None


def _is_asked_for(error: BaseException) -> bool:
    """Whether the caller cancelled the asyncio task, rather than the handler itself."""
    import asyncio

    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _uncancelled(error: BaseException) -> BaseException:
    import asyncio

    if not isinstance(error, asyncio.CancelledError):
        return error
    failure = RuntimeError("The task cancelled itself.")
    failure.__cause__ = error
    return failure


def _finished(value: Any) -> Any:
    """Return the value; run it first if it is a coroutine."""
    return value if type(value) in _PLAIN or not isinstance(value, Coroutine) else _finish(value)


def _finish(coroutine: Coroutine[Any, Any, Any]) -> Any:
    if not _is_in_a_loop():
        return _run(coroutine)
    # A thread cannot run two loops: this one belongs to the caller.
    from concurrent.futures import ThreadPoolExecutor
    from contextvars import copy_context

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(copy_context().run, _run, coroutine).result()


def _is_in_a_loop() -> bool:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    import asyncio

    try:
        return asyncio.run(coroutine)
    except asyncio.CancelledError as error:
        raise _uncancelled(error) from error


def _name(kind: type[BaseException]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _is_retryable(error: BaseException) -> bool:
    try:
        return getattr(error, "retryable", True) is not False
    except Exception:  # noqa: BLE001 - it is the task's own property
        return True


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001 - it is the task's own __str__
        return f"(its text could not be made: {type(second).__name__})"


def _stack(error: BaseException, function: Callable[..., Any]) -> str:
    from traceback import format_exception

    begin, code = error.__traceback__, getattr(unwrap(function), "__code__", None)
    while begin is not None and begin.tb_frame.f_code is not code:
        begin = begin.tb_next
    try:
        return "".join(format_exception(type(error), error, begin or error.__traceback__))
    except Exception:  # noqa: BLE001 - formatting calls the task's own __str__
        return ""


def _plain(text: str, limit: int) -> str:
    """Return text that every store can keep: no NUL, no lone surrogates, only the end if it is too long."""
    clean = text.replace("\x00", "\\x00").encode(errors="backslashreplace").decode()
    return clean if len(clean) <= limit else f"…{clean[-limit:]}"
