"""Ask and steer live workers from Python: what `stem worker ping`, `revoke`, `pause` and the like do."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, get_args

from stem.client.link import Link
from stem.client.options import Duration
from stem.client.policy import seconds
from stem.core.errors import UsageError

if TYPE_CHECKING:
    from stem.control.caller import Answers, Caller
    from stem.control.pausing import Paused, Pausing
    from stem.control.revoking import Revoked
    from stem.core.heartbeat import Pulse

P = ParamSpec("P")
T = TypeVar("T")
Mode = Literal["warm", "soft", "hard"]


class Control:
    """`app.control`. Every question goes to all workers, or to those named in `workers`, and waits for their replies until
    all have answered or `timeout` is over (default: the setting `control.timeout`). `.replies` of the answer has one reply
    per worker. Raises UsageError, StoreUnavailable, StoreRefused."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def workers(self) -> "dict[str, Pulse]":
        """The last heartbeat of every live worker, by its name. Asks the store, not the workers."""
        with self._caller() as caller:
            return caller.known()

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
    ) -> "Revoked":
        """Do not run these tasks, now or later; with `terminate`, stop those that run. Durable when it returns, with no
        worker running as well."""
        from stem.control.commands.revoke import Signal
        from stem.control.revoking import revoke
        from stem.core.revoke import RevokeRequest

        if not task_ids:
            raise UsageError("No task is named; give at least one id: app.control.revoke(handle.id).")
        if signal not in (known := get_args(Signal)):
            raise UsageError(f"There is no signal {signal!r} to end a task by; use one of {', '.join(known)}.")
        requests = [
            RevokeRequest(
                task_id=task_id,
                reason=reason,
                requester=_requester(),
                terminate=terminate,
                signal=signal if terminate else None,
                expires_seconds=None if expires is None else seconds("expires", expires, above_zero=True),
            )
            for task_id in task_ids
        ]
        with self._caller() as caller, self._link.revokes() as marks:
            return revoke(
                marks,
                caller,
                requests,
                terminate=terminate,
                signal=signal,
                workers=workers,
                timeout_seconds=self._timeout_seconds(timeout),
                broker=self._link.store.broker,
            )

    def pause(self, *queues: str, workers: Sequence[str] = (), timeout: Duration | None = None) -> "Paused":
        """Start nothing more of these queues. Durable: workers that start later heed it."""
        with self._pausing(queues) as pausing:
            return pausing.pause(queues, workers=workers, timeout_seconds=self._timeout_seconds(timeout))

    def resume(self, *queues: str, workers: Sequence[str] = (), timeout: Duration | None = None) -> "Paused":
        """Go on with queues that were paused."""
        with self._pausing(queues) as pausing:
            return pausing.resume(queues, workers=workers, timeout_seconds=self._timeout_seconds(timeout))

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
        with self._caller() as caller:
            return caller.ask(type, payload, workers=workers, timeout_seconds=self._timeout_seconds(timeout))

    async def aping(self, *, workers: Sequence[str] = (), timeout: Duration | None = None) -> "Answers":
        return await self.aask("ping", workers=workers, timeout=timeout)

    async def astats(
        self, *, include_tasks: bool = False, workers: Sequence[str] = (), timeout: Duration | None = None
    ) -> "Answers":
        return await self.aask("stats", {"includeTasks": include_tasks}, workers=workers, timeout=timeout)

    async def ainspect(self, **filters: Any) -> "Answers":
        """As `inspect`."""
        return await _in_a_thread(self.inspect, **filters)

    async def arevoke(self, *task_ids: str, terminate: bool = False, **more: Any) -> "Revoked":
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
    def _caller(self) -> "Iterator[Caller]":
        from stem.control.caller import Caller
        from stem.control.ways import way
        from stem.runtime.keys import Keyring

        settings, store = self._link.settings, self._link.store
        caller = Caller(store, Keyring.parse(settings.control_keys), settings.control_namespace, way(settings, store))
        try:
            yield caller
        finally:
            caller.close()

    @contextmanager
    def _pausing(self, queues: Sequence[str]) -> "Iterator[Pausing]":
        from stem.control.pausing import Pausing

        if not queues:
            raise UsageError('No queue is named; give at least one: app.control.pause("mail").')
        with self._caller() as caller, self._link.revokes() as marks:
            yield Pausing(marks, self._link.store.locks, caller, _requester())

    def _timeout_seconds(self, timeout: Duration | None) -> float:
        if timeout is None:
            return self._link.settings.control.timeout_seconds
        return seconds("timeout", timeout, above_zero=True)


async def _in_a_thread(ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    import asyncio

    return await asyncio.to_thread(ask, *args, **kwargs)


def _requester() -> str:
    import os
    import socket
    import sys

    return f"{os.path.basename(sys.argv[0]) or 'python'}[{os.getpid()}]@{socket.gethostname()}"
