"""Run an admitted call, with the hooks around it, and say what it came to."""

from collections.abc import Callable, Coroutine
from functools import partial
from inspect import unwrap
from typing import Any, TypeVar

from msgspec import Raw

from stem.client import django_connections
from stem.client.admit import Admitted
from stem.client.context import RetryRequested, TaskContext
from stem.client.engines import engine
from stem.core.encode import encode_json
from stem.core.errors import Drop, InvalidArguments, TaskRevoked
from stem.core.outcome import Raised, Returned, Revoked
from stem.core.record import TaskError

E = TypeVar("E", bound=BaseException)

MAX_MESSAGE, MAX_STACK = 8_000, 32_000

_NO_VALUE = Raw(b"null")
_PLAIN = frozenset({type(None), bool, int, float, str, list, dict})  # no coroutines, and told so without a long search


def invoke(call: Admitted, context: TaskContext, *, catch_interrupts: bool) -> Returned | Raised | Revoked:
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
        return _ended(call, context, error)
    finally:
        django_connections.close_stale()
    return _returned(call, value)


async def ainvoke(call: Admitted, context: TaskContext, *, catch_interrupts: bool) -> Returned | Raised | Revoked:
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
        return _ended(call, context, _uncancelled(error))
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
    """The failure as it is recorded. `function` is where the stack begins that is of interest. Worth a retry are the
    classes of `retry_on` (None: all) without those of `no_retry_on`, unless the error's own `retryable` is False."""
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
    """A value without a JSON form, or of another type than was promised, is not worth a retry: it would come out the
    same again."""
    if call.definition.ignore_result:
        return Returned(_NO_VALUE)
    try:
        encoded = encode_json(value, what="the result", limit_bytes=call.limit_bytes, option="max_result_bytes")
    except InvalidArguments as error:
        return Raised(TaskError("UnserialisableResult", str(error)))
    signature = call.definition.signature
    fault = None if signature is None else signature.result_fault(encoded)
    return Returned(encoded) if fault is None else Raised(TaskError("ResultTypeMismatch", fault))


def _ended(call: Admitted, context: TaskContext, error: BaseException) -> Raised | Revoked:
    """Revokes and wishes for a retry are no errors: the hooks hear of them when they are settled."""
    if (revoke := _found(TaskRevoked, error)) is not None:
        return Revoked(_plain(_message(revoke), MAX_MESSAGE) or "revoked")
    if (drop := _found(Drop, error)) is not None:
        return Revoked(_plain(_message(drop), MAX_MESSAGE) or "dropped")
    if (wish := _found(RetryRequested, error)) is not None:
        said = TaskError("RetryRequested", _plain(_message(wish), MAX_MESSAGE), retryable=True)
        return Raised(said, wish.delay_seconds)
    call.hooks.error(context, error)
    task = call.definition
    return raised(error, task.function, retry_on=task.retry_on, no_retry_on=task.no_retry_on)


def _found(kind: type[E], error: BaseException) -> E | None:
    """The error if it is of that kind, or the first of the kind in a group: a TaskGroup wraps what its members raise."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := _found(kind, each)) is not None), None)
    return error if isinstance(error, kind) else None


def _is_asked_for(error: BaseException) -> bool:
    """Whether it is the cancellation of the task (of asyncio) that awaits the handler, and not one of the handler's own."""
    import asyncio

    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _uncancelled(error: BaseException) -> BaseException:
    import asyncio

    if not isinstance(error, asyncio.CancelledError):
        return error
    told = RuntimeError("The task cancelled itself.")
    told.__cause__ = error
    return told


def _finished(value: Any) -> Any:
    """The value itself, or what it comes to if it is a coroutine."""
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
    """Text that every store can keep: no NUL, no halves of characters, the end kept where it is too long."""
    clean = text.replace("\x00", "\\x00").encode(errors="backslashreplace").decode()
    return clean if len(clean) <= limit else f"…{clean[-limit:]}"
