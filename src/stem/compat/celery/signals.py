"""Celery's signals: receivers are called with `sender` and named facts, in the process where it happens."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar, overload

from stem.compat.celery.refused import SIGNALS, refuse_import

log = logging.getLogger("stem.signals")

Receiver = Callable[..., Any]
R = TypeVar("R", bound=Receiver)


class CelerySignal:
    """One signal. `connect` is a decorator with and without arguments; a receiver that raises is logged and stops nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._receivers: dict[Any, tuple[Receiver, Any]] = {}
        self.on_connect: Callable[[], object] | None = None  # connects it to what Stem tells, once somebody listens

    @overload
    def connect(self, receiver: R, *, sender: Any = None, dispatch_uid: Any = None, **_options: Any) -> R: ...
    @overload
    def connect(self, *, sender: Any = None, dispatch_uid: Any = None, **_options: Any) -> Callable[[R], R]: ...
    def connect(
        self, receiver: Receiver | None = None, *, sender: Any = None, dispatch_uid: Any = None, **_options: Any
    ) -> Any:
        """Call the receiver from now on, for this sender or for all."""
        if receiver is None:
            return lambda each: self.connect(each, sender=sender, dispatch_uid=dispatch_uid)
        key = dispatch_uid or (_identity(receiver), id(sender))
        self._receivers.setdefault(key, (receiver, sender))
        if self.on_connect is not None:
            self.on_connect()
        return receiver

    def disconnect(self, receiver: Any = None, sender: Any = None, dispatch_uid: Any = None, **_options: Any) -> bool:
        key = dispatch_uid or (_identity(receiver), id(sender))
        return self._receivers.pop(key, None) is not None

    def has_listeners(self, sender: Any = None) -> bool:
        return bool(self._called(sender))

    @property
    def receivers(self) -> list[Receiver]:
        return [receiver for receiver, _ in self._receivers.values()]

    def send(self, sender: Any, **named: Any) -> list[tuple[Receiver, Any]]:
        """Call the receivers, one after the other."""
        answers: list[tuple[Receiver, Any]] = []
        for receiver in self._called(sender):
            try:
                answers.append((receiver, receiver(signal=self, sender=sender, **named)))
            except Exception as error:
                log.exception("signal.failed signal=%s handler=%s", self.name, getattr(receiver, "__qualname__", "?"))
                answers.append((receiver, error))
        return answers

    send_robust = send

    def _called(self, sender: Any) -> list[Receiver]:
        return [receiver for receiver, wanted in self._receivers.values() if _is_of(wanted, sender)]

    def __repr__(self) -> str:
        return f"<Signal: {self.name}>"


def _identity(receiver: Any) -> Any:
    return (id(receiver.__self__), id(receiver.__func__)) if hasattr(receiver, "__func__") else id(receiver)


def _is_of(wanted: Any, sender: Any) -> bool:
    return wanted is None or wanted is sender or getattr(wanted, "name", wanted) == getattr(sender, "name", sender)


before_task_publish = CelerySignal("before_task_publish")
after_task_publish = CelerySignal("after_task_publish")
task_prerun = CelerySignal("task_prerun")
task_postrun = CelerySignal("task_postrun")
task_success = CelerySignal("task_success")
task_failure = CelerySignal("task_failure")
task_retry = CelerySignal("task_retry")
task_revoked = CelerySignal("task_revoked")
worker_init = CelerySignal("worker_init")
worker_ready = CelerySignal("worker_ready")
worker_shutdown = CelerySignal("worker_shutdown")
worker_process_init = CelerySignal("worker_process_init")
beat_init = CelerySignal("beat_init")
setup_logging = CelerySignal("setup_logging")


def __getattr__(name: str) -> Any:
    refuse_import(SIGNALS, "celery.signals", name)
