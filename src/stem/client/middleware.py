"""Hooks around sending and running tasks. An error in a hook is logged and stops nothing."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from copy import deepcopy
from types import TracebackType
from typing import Any

import msgspec

from stem.client.run.context import TaskContext
from stem.client.task.options import checked_headers, checked_meta
from stem.core.envelope import Envelope
from stem.core.errors import InvalidTask, SoftTimeLimitExceeded, UsageError
from stem.core.outcome import Settlement

log = logging.getLogger("stem.middleware")

_NOTHING = nullcontext()


class Middleware:
    """Subclass and override what you need; a hook that is not overridden costs nothing.

    `enqueue`, `consume` and `execute` are called in the order in which the app was given its middleware, `error` and
    `settle` in reverse. An Exception that a hook raises is logged and otherwise ignored.
    """

    def enqueue(self, envelope: Envelope) -> Envelope:
        """Called in the sender, before signing. Headers and meta may be changed: `msgspec.structs.replace(envelope, meta=…)`."""
        return envelope

    def consume(self, context: TaskContext) -> None:
        """Called before a task runs."""

    def execute(self, context: TaskContext) -> AbstractContextManager[Any]:  # noqa: ARG002 - for overrides
        """Wraps the handler, sync or async. It sees the handler's exception but cannot swallow it."""
        return nullcontext()

    def error(self, context: TaskContext, error: BaseException) -> None:
        """Called when the handler raised. Not called for a revoke or for `ctx.retry`, which are not errors."""

    def settle(self, context: TaskContext, settlement: Settlement) -> None:
        """Called when the settlement of an attempt is decided and about to be written."""


class Hooks:
    """The overridden hooks of an app's middleware, collected once."""

    __slots__ = ("_consume", "_enqueue", "_error", "_execute", "_settle", "middleware")

    def __init__(self, middleware: Iterable[Middleware] = ()) -> None:
        self.middleware = tuple(_checked(one) for one in middleware)
        self._enqueue = self._overridden("enqueue")
        self._consume = self._overridden("consume")
        self._execute = self._overridden("execute")
        self._error = self._overridden("error")[::-1]
        self._settle = self._overridden("settle")[::-1]

    def enqueue(self, envelope: Envelope) -> Envelope:
        """Run the `enqueue` hooks. Each gets a copy, so a hook that fails leaves no half-made change."""
        for hook in self._enqueue:
            try:
                envelope = _changed(envelope, hook(_copied(envelope)))
            except Exception:  # noqa: BLE001 - a hook may raise anything
                _report("enqueue", hook, envelope.id)
        return envelope

    def consume(self, context: TaskContext) -> None:
        for hook in self._consume:
            try:
                hook(context)
            except SoftTimeLimitExceeded:  # it is the attempt's, wherever it strikes
                raise
            except Exception:  # noqa: BLE001 - as above
                _report("consume", hook, context.id)

    def around(self, context: TaskContext) -> AbstractContextManager[Any]:
        """Combine the `execute` hooks into one context manager."""
        return self._entered(context) if self._execute else _NOTHING

    @contextmanager
    def _entered(self, context: TaskContext) -> Iterator[None]:
        with ExitStack() as stack:
            self._enter(context, stack)
            yield

    def _enter(self, context: TaskContext, stack: ExitStack) -> None:
        for hook in self._execute:
            try:
                manager = hook(context)
                leave = type(manager).__exit__
                manager.__enter__()
            except SoftTimeLimitExceeded:
                raise
            except Exception:  # noqa: BLE001 - as above
                _report("execute", hook, context.id)
            else:
                stack.push(_Leaving(hook, manager, leave, context))

    def error(self, context: TaskContext, error: BaseException) -> None:
        for hook in self._error:
            try:
                hook(context, error)
            except KeyboardInterrupt:
                raise
            except BaseException:  # noqa: BLE001 - the attempt is over, and nothing may keep it from being settled
                _report("error", hook, context.id)

    def settle(self, context: TaskContext, settlement: Settlement) -> None:
        for hook in self._settle:
            try:
                hook(context, settlement)
            except KeyboardInterrupt:
                raise
            except BaseException:  # noqa: BLE001 - as above
                _report("settle", hook, context.id)

    def _overridden(self, name: str) -> tuple[Callable[..., Any], ...]:
        plain = getattr(Middleware, name)
        hooks = (getattr(one, name) for one in self.middleware)
        return tuple(hook for hook in hooks if getattr(hook, "__func__", None) is not plain)


class _Leaving:
    """Leaves one `execute` hook. The hook may look at the handler's exception but not change it."""

    def __init__(
        self,
        hook: Callable[..., Any],
        manager: AbstractContextManager[Any],
        leave: Callable[..., Any],
        context: TaskContext,
    ) -> None:
        self._hook, self._manager, self._leave, self._context = hook, manager, leave, context

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        try:
            self._leave(self._manager, kind, error, stack)
        except SoftTimeLimitExceeded:
            raise
        except Exception as raised:  # noqa: BLE001 - as above
            if raised is not error:
                _report("execute", self._hook, self._context.id)


def _checked(middleware: object) -> Middleware:
    if isinstance(middleware, Middleware):
        return middleware
    what = middleware.__name__ if isinstance(middleware, type) else type(middleware).__name__
    raise UsageError(f"{what} is no middleware; pass an object whose class derives from stem.Middleware.")


def _copied(envelope: Envelope) -> Envelope:
    return msgspec.structs.replace(envelope, headers=dict(envelope.headers), meta=deepcopy(envelope.meta))


def _changed(envelope: Envelope, returned: object) -> Envelope:
    """Take headers and meta from what the hook returned; the rest must be unchanged. Raises InvalidTask."""
    if not isinstance(returned, Envelope):
        raise InvalidTask(f"The hook returned an object of type {type(returned).__name__}; return the envelope.")
    headers, meta = checked_headers(returned.headers), checked_meta(returned.meta)
    changed = msgspec.structs.replace(envelope, headers=headers, meta=meta)
    if changed != msgspec.structs.replace(returned, headers=headers, meta=meta):
        raise InvalidTask("The hook changed more of the envelope than its headers and meta; leave the rest as it is.")
    return changed


def _report(name: str, hook: Callable[..., Any], task_id: str) -> None:
    owner = type(getattr(hook, "__self__", hook)).__qualname__
    log.exception("middleware.failed hook=%s class=%s id=%s", name, owner, task_id)
