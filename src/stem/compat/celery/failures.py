"""Exceptions of tasks, as they are recorded and as they are raised again."""

import sys
from ast import literal_eval
from contextlib import suppress
from typing import Any

from stem.compat.celery import exceptions
from stem.core.record import TaskError

_OF_STEM: dict[str, type[Exception]] = {
    "HardTimeLimitExceeded": exceptions.TimeLimitExceeded,
    "IsolateDied": exceptions.WorkerLostError,
    "UnknownTask": exceptions.NotRegistered,
    "InvalidArguments": TypeError,
    "PrerequisiteFailed": exceptions.ChordError,
}


class ExceptionInfo:
    """An exception with its traceback as text, as receivers of signals and `on_failure` get it."""

    def __init__(self, exception: BaseException, traceback: str = "") -> None:
        self.exception = exception
        self.type = type(exception)
        self.tb = exception.__traceback__
        self.traceback = traceback
        self.internal = False

    def __str__(self) -> str:
        return self.traceback

    def __repr__(self) -> str:
        return f"<ExceptionInfo: {self.exception!r}>"


def exception_of(error: TaskError | None) -> BaseException:
    """The exception that a task has raised, of its class if that is imported here, with its text.

    Nothing is imported for it, and only exceptions are made: what tasks write may be anything.
    """
    if error is None:
        return exceptions.CeleryError("no reason recorded")
    message = error.message
    if error.type == "RetryRequested":
        kind, _, rest = message.partition(": ")
        return _made(_class(kind), rest) if kind and rest else exceptions.Retry(message)
    return _made(_OF_STEM.get(error.type) or _class(error.type), message)


def described(error: BaseException) -> str:
    """Class and text, as `exception_of` reads them."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{name}: {error}"


def _class(name: str) -> type[Exception]:
    module, _, qualified = name.rpartition(".")
    found: Any = sys.modules.get(module or "builtins")
    while found is None and "." in module:  # a class in a class
        module, _, outer = module.rpartition(".")
        qualified, found = f"{outer}.{qualified}", sys.modules.get(module)
    for part in qualified.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and issubclass(found, Exception):
        return found
    return type(qualified.rpartition(".")[2] or "Exception", (Exception,), {"__module__": __name__})


def _made(kind: type[Exception], message: str) -> Exception:
    arguments: list[Any] = [message] if message else []
    if issubclass(kind, KeyError):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):  # its text is the key as Python writes it
            arguments = [literal_eval(message)]
    try:
        return kind(*arguments)
    except Exception:  # noqa: BLE001 - a class of the project's may want other arguments
        made = kind.__new__(kind)
        made.args = tuple(arguments)
        return made
