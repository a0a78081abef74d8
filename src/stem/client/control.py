"""Ask and steer live workers from Python: what `stem worker ping`, `revoke`, `pause` and the like do."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, get_args

from stem.client.store_connection import StoreConnection
from stem.client.task.options import Duration
from stem.client.task.policy import seconds
from stem.core.errors import UsageError

if TYPE_CHECKING:
    from stem.control.caller import Answers
    from stem.control.command_session import CommandSession
    from stem.control.pausing import Paused, Verb
    from stem.control.revoking import RevokeResult
    from stem.core.heartbeat import Pulse

P = ParamSpec("P")
T = TypeVar("T")
Mode = Literal["warm", "soft", "hard"]


class Control:
    """`app.control`. Every question goes to all workers, or to those named in `workers`, and waits for their replies until
    all have answered or `timeout` is over (default: the setting `control.timeout`). `.replies` of the answer has one reply
    per worker. Raises UsageError, StoreUnavailable, StoreRefused."""

    def __init__(self, store_connection: StoreConnection) -> None:
        self._store_connection = store_connection

    def workers(self) -> "dict[str, Pulse]":
        """The last heartbeat of every live worker, by its name. Asks the store, not the workers."""
        with self._session() as session:
            return session.caller.known()

    def ping(self, *, workers: Sequence[str] = (), timeout: Duration | None = None) -> "Answers":
        """Whether workers are there, and in what state: `.health` by worker."""
        return self.ask("ping", workers=workers, timeout=timeout)

    def stats(
        self, *, include_tasks: bool = False, workers: Sequence[str] = (), timeout: Duration | None = None
    ) -> "Answers":
        """Concurrency, running and reserved tasks, and counters."""
        return self.ask("stats", {"includeTasks": include_tasks}, workers=workers, timeout=timeout)

    def inspect(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        id: str | None = None,
        workers: Sequence[str] = (),
        timeout: Duration | None = None,
    ) -> "Answers":
        """The tasks that run, longest first; only those of a queue, of a task's name, or of one id."""
        filters = {name: value for name, value in (("queue", queue), ("task", task), ("id", id)) if value is not None}
        return self.ask("list-active", {"filters": filters}, workers=workers, timeout=timeout)

    def revoke(
        self,
        *task_ids: str,
        terminate: bool = False,
        signal: str = "SIGTERM",
        reason: str = "",
        expires: Duration | None = None,
        workers: Sequence[str] = (),
        timeout: Duration | None = None,
    ) -> "RevokeResult":
        """Do not run these tasks, now or later; with `terminate`, stop those that run. Durable when it returns, with no
        worker running as well."""
        from stem.control.commands.revoke import Signal
        from stem.control.revoking import revoke_tasks

        if not task_ids:
            raise UsageError("No task is named; give at least one id: app.control.revoke(handle.id).")
        if signal not in (known := get_args(Signal)):
            raise UsageError(f"There is no signal {signal!r} to end a task by; use one of {', '.join(known)}.")
        expires_seconds = None if expires is None else seconds("expires", expires, above_zero=True)
        with self._session(workers, timeout) as session:
            return revoke_tasks(
                session, task_ids, terminate=terminate, signal=signal, reason=reason, expires_seconds=expires_seconds
            )

    def pause(self, *queues: str, workers: Sequence[str] = (), timeout: Duration | None = None) -> "Paused":
        """Start nothing more of these queues. Durable: it also applies to workers that start later."""
        return self._change_pauses("pause", queues, workers, timeout)

    def resume(self, *queues: str, workers: Sequence[str] = (), timeout: Duration | None = None) -> "Paused":
        """Go on with queues that were paused."""
        return self._change_pauses("resume", queues, workers, timeout)

    def _change_pauses(
        self, verb: "Verb", queues: Sequence[str], workers: Sequence[str], timeout: Duration | None
    ) -> "Paused":
        from stem.control.pausing import change_pauses

        if not queues:
            raise UsageError('No queue is named; give at least one: app.control.pause("mail").')
        with self._session(workers, timeout) as session, session.revokes() as revokes:
            return change_pauses(session, revokes, verb, queues)

    def shutdown(
        self, mode: Mode = "warm", *, workers: Sequence[str] = (), timeout: Duration | None = None
    ) -> "Answers":
        """Stop workers: warm lets tasks end, soft tells them to stop, hard puts them back into their queues at once.
        Returns when they have begun to."""
        return self.ask("shutdown", {"mode": mode}, workers=workers, timeout=timeout)

    def ask(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        workers: Sequence[str] = (),
        timeout: Duration | None = None,
    ) -> "Answers":
        """Any command by its name: `queue-status`, `autoscale-config`, `rate-limit`, `recycle` …, with its payload."""
        with self._session(workers, timeout) as session:
            return session.ask(type, payload)

    async def aping(self, *, workers: Sequence[str] = (), timeout: Duration | None = None) -> "Answers":
        return await self.aask("ping", workers=workers, timeout=timeout)

    async def astats(
        self, *, include_tasks: bool = False, workers: Sequence[str] = (), timeout: Duration | None = None
    ) -> "Answers":
        return await self.aask("stats", {"includeTasks": include_tasks}, workers=workers, timeout=timeout)

    async def ainspect(self, **filters: Any) -> "Answers":
        """As `inspect`."""
        return await _in_a_thread(self.inspect, **filters)

    async def arevoke(self, *task_ids: str, terminate: bool = False, **more: Any) -> "RevokeResult":
        """As `revoke`."""
        return await _in_a_thread(self.revoke, *task_ids, terminate=terminate, **more)

    async def apause(self, *queues: str, workers: Sequence[str] = (), timeout: Duration | None = None) -> "Paused":
        return await _in_a_thread(self.pause, *queues, workers=workers, timeout=timeout)

    async def aresume(self, *queues: str, workers: Sequence[str] = (), timeout: Duration | None = None) -> "Paused":
        return await _in_a_thread(self.resume, *queues, workers=workers, timeout=timeout)

    async def ashutdown(
        self, mode: Mode = "warm", *, workers: Sequence[str] = (), timeout: Duration | None = None
    ) -> "Answers":
        return await self.aask("shutdown", {"mode": mode}, workers=workers, timeout=timeout)

    async def aask(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        workers: Sequence[str] = (),
        timeout: Duration | None = None,
    ) -> "Answers":
        return await _in_a_thread(self.ask, type, payload, workers=workers, timeout=timeout)

    @contextmanager
    def _session(self, workers: Sequence[str] = (), timeout: Duration | None = None) -> "Iterator[CommandSession]":
        from stem.control.caller import Caller
        from stem.control.command_session import CommandSession
        from stem.control.transport_factory import command_sender
        from stem.runtime.keys import Keyring

        settings, store = self._store_connection.settings, self._store_connection.store
        default = settings.control.timeout_seconds
        keyring, transport = Keyring.parse(settings.control_keys), command_sender(settings, store)
        caller = Caller(store, keyring, settings.control_namespace, transport)
        try:
            yield CommandSession(
                store=store,
                caller=caller,
                revokes=self._store_connection.revokes,
                requester=_requester(),
                timeout_seconds=default if timeout is None else seconds("timeout", timeout, above_zero=True),
                workers=tuple(workers),
            )
        finally:
            caller.close()


async def _in_a_thread(ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    import asyncio

    return await asyncio.to_thread(ask, *args, **kwargs)


def _requester() -> str:
    import os
    import socket
    import sys

    return f"{os.path.basename(sys.argv[0]) or 'python'}[{os.getpid()}]@{socket.gethostname()}"
