"""The flags of every command that asks workers, and the line to those workers."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec.structs import replace

from stem.cli import times
from stem.cli.session import Session, check_exists, check_shared, in_session

if TYPE_CHECKING:
    from stem.contracts.revokes import Revokes
    from stem.contracts.store import Store
    from stem.control.caller import Answers, Caller
    from stem.core.config import Settings

_NAMESPACE = "Namespace that workers listen in.  [env: STEM_CONTROL_NAMESPACE, STEM_WORKER_NAMESPACE, STEM_NAMESPACE]"


class Line(msgspec.Struct, frozen=True):
    """An open store, and the workers that are to be asked through it: those named, or all."""

    settings: "Settings"
    store: "Store"
    caller: "Caller"
    workers: tuple[str, ...]
    timeout_seconds: float

    def ask(self, type: str, payload: Mapping[str, Any] | None = None) -> "Answers":
        return self.caller.ask(type, payload, workers=self.workers, timeout_seconds=self.timeout_seconds)

    @contextmanager
    def marks(self) -> "Iterator[Revokes]":
        """Where revokes and pauses are written down."""
        from stem.backends import connect_revokes

        if self.settings.revokes_place == self.settings.broker_url:
            yield self.store.revokes
            return
        marks = connect_revokes(self.settings)
        try:
            yield marks.revokes
        finally:
            marks.close()


class Asking(msgspec.Struct, frozen=True):
    """What was typed. `workers` empty: all that are known."""

    session: Session
    workers: tuple[str, ...]
    timeout_seconds: float | None

    @contextmanager
    def line(self, *, may_create: bool = False) -> "Iterator[Line]":
        """`may_create`: a store that is not there yet is made."""
        settings, store, caller = self._open(may_create)
        default = settings.control.timeout_seconds
        timeout_seconds = default if self.timeout_seconds is None else self.timeout_seconds
        try:
            yield Line(settings, store, caller, self.workers, timeout_seconds)
        finally:
            caller.close()
            store.upkeep.close()

    def _open(self, may_create: bool) -> "tuple[Settings, Store, Caller]":
        """Workers may listen under a name of their own, or under that of their tasks' namespace. The flag means the one
        or the other, whichever has workers."""
        settings = replace(self.session, namespace=None).settings()
        name = self.session.namespace
        if name is None:
            return _opened(settings, may_create)
        settings = replace(settings, control=replace(settings.control, namespace=name))
        if settings.namespace != name:
            opened = _opened(settings, may_create)
            if opened[2].known():
                return opened
            opened[1].upkeep.close()
        return _opened(replace(settings, namespace=name), may_create)


def _opened(settings: "Settings", may_create: bool) -> "tuple[Settings, Store, Caller]":
    gc.disable()  # there is no garbage in what is imported, only much to look through
    try:
        from stem.backends import connect_briefly, placed
        from stem.control.caller import Caller
        from stem.control.ways import way
        from stem.core.config import check_settings
        from stem.runtime.keys import Keyring

        settings = placed(check_settings(check_shared(settings)))
        keyring = Keyring.parse(settings.control_keys)
        if not may_create:
            check_exists(settings)
        store = connect_briefly(settings.broker_url, settings)  # results are no business of these commands
        return settings, store, Caller(store, keyring, settings.control_namespace, way(settings, store))
    finally:
        gc.enable()


def asking(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of every command that asks workers; it is called with an Asking in their place."""

    @wraps(function)
    def run(session: Session, *, workers: tuple[str, ...], timeout_seconds: float | None, **rest: Any) -> None:
        function(Asking(session, tuple(dict.fromkeys(workers)), timeout_seconds), **rest)

    command = in_session(run, namespace_help=_NAMESPACE)
    for option in reversed(
        (
            click.option(
                "--worker", "workers", metavar="WORKER", multiple=True, help="Only this worker; may be repeated."
            ),
            click.option(
                "--timeout",
                "timeout_seconds",
                type=times.DURATION,
                help="How long to wait for replies: 5s.  [env: STEM_CONTROL_TIMEOUT]",
            ),
        )
    ):
        command = option(command)
    return command
