"""The flags of every command that asks workers, and the store and workers that they name."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec.structs import replace

from stem.cli.support import completing, times
from stem.cli.support.stores import Session, check_exists, check_shared, in_session

if TYPE_CHECKING:
    from stem.control.command_session import CommandSession
    from stem.core.settings.app import Settings

_NAMESPACE = "Namespace that workers listen in.  [env: STEM_CONTROL_NAMESPACE, STEM_WORKER_NAMESPACE, STEM_NAMESPACE]"


class ControlFlags(msgspec.Struct, frozen=True):
    """What was typed. `workers` empty: all that are known."""

    session: Session
    workers: tuple[str, ...]
    timeout_seconds: float | None

    @contextmanager
    def open(self, *, may_create: bool = False) -> "Iterator[CommandSession]":
        """`may_create`: a store that is not there yet is made."""
        session = self._open(may_create)
        try:
            yield session
        finally:
            session.caller.close()
            session.store.upkeep.close()

    def _open(self, may_create: bool) -> "CommandSession":
        """Workers may listen under a name of their own, or under that of their tasks' namespace. The flag means the one
        or the other, whichever has workers."""
        settings = replace(self.session, namespace=None).settings()
        name = self.session.namespace
        if name is None:
            return self._command_session(settings, may_create)
        settings = replace(settings, control=replace(settings.control, namespace=name))
        if settings.namespace != name:
            session = self._command_session(settings, may_create)
            if session.caller.known():
                return session
            session.store.upkeep.close()
        return self._command_session(replace(settings, namespace=name), may_create)

    def _command_session(self, settings: "Settings", may_create: bool) -> "CommandSession":
        gc.disable()  # there is no garbage in what is imported, only much to look through
        try:
            from stem.client.stores import connect, revokes_of, with_absolute_paths
            from stem.control.caller import Caller
            from stem.control.command_session import CommandSession
            from stem.control.transport_factory import command_sender
            from stem.core.settings.app import check_settings
            from stem.runtime.keys import Keyring

            settings = with_absolute_paths(check_settings(check_shared(settings)))
            keyring = Keyring.parse(settings.control_keys)
            if not may_create:
                check_exists(settings)
            default = settings.control.timeout_seconds
            store = connect(settings.broker_url, settings)  # results are no business of these commands
            return CommandSession(
                store=store,
                caller=Caller(store, keyring, settings.control_namespace, command_sender(settings, store)),
                revokes=lambda: revokes_of(store, settings),
                requester=_requester(),
                timeout_seconds=default if self.timeout_seconds is None else self.timeout_seconds,
                workers=self.workers,
            )
        finally:
            gc.enable()


def control_flags(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the flags of every command that asks workers; it is called with ControlFlags in their place."""

    @wraps(function)
    def run(session: Session, *, workers: tuple[str, ...], timeout_seconds: float | None, **rest: Any) -> None:
        function(ControlFlags(session, tuple(dict.fromkeys(workers)), timeout_seconds), **rest)

    timeout = click.option(
        "--timeout",
        "timeout_seconds",
        type=times.DURATION,
        help="How long to wait for replies: 5s.  [env: STEM_CONTROL_TIMEOUT]",
    )
    workers = click.option(
        "--worker",
        "workers",
        metavar="WORKER",
        multiple=True,
        help="Only this worker; may be repeated.",
        shell_complete=completing.workers,
    )
    return workers(timeout(in_session(run, namespace_help=_NAMESPACE)))


def _requester() -> str:
    import getpass
    import socket
    from contextlib import suppress

    user = "?"
    with suppress(KeyError, OSError):  # a user id without a name, as in some containers
        user = getpass.getuser()
    return f"{user}@{socket.gethostname()}"
