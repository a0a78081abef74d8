"""Run an admitted call and say what it came to."""

from collections.abc import Callable, Coroutine
from inspect import unwrap
from typing import Any

from stem.client.admit import Admitted
from stem.core.encode import encode_json
from stem.core.errors import InvalidArguments
from stem.core.outcome import Raised, Returned
from stem.core.record import TaskError

MAX_MESSAGE, MAX_STACK = 8_000, 32_000


def invoke(call: Admitted, *, context: object | None = None) -> Returned | Raised:
    """Run the function, sync or async, to its end. Whatever it raises becomes an outcome, except a KeyboardInterrupt.

    An exception is worth a retry unless it has an attribute `retryable` that is False. A value without a JSON form is
    not: it would come out the same again.
    """
    signature, function = call.task.definition.signature, call.task.definition.function
    arguments = dict(call.arguments)
    if signature is not None and signature.context is not None:
        arguments[signature.context] = context
    try:
        value = function(**arguments)
        if isinstance(value, Coroutine):
            value = _finish(value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a task may raise anything
        return raised(error, function)
    try:
        return Returned(encode_json(value, what="the result", limit_bytes=call.limit_bytes))
    except InvalidArguments as error:
        return Raised(TaskError("UnserialisableResult", str(error)))


def raised(error: BaseException, function: Callable[..., Any]) -> Raised:
    """`function` is where the stack begins that is of interest."""
    return Raised(
        TaskError(
            _name(type(error)),
            _plain(_message(error), MAX_MESSAGE),
            _plain(_stack(error, function), MAX_STACK),
            retryable=_is_retryable(error),
        )
    )


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
        raise RuntimeError("The task cancelled itself.") from error


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
