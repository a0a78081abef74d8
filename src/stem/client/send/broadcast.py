"""Sends one call to every live worker, each through a queue of its own, and waits for all of them."""

import os
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from stem.client.send.compose import compose, envelope_template
from stem.client.send.handle import TaskHandle
from stem.client.send.retry import retry_while_unavailable
from stem.client.store_connection import StoreConnection
from stem.client.task.definition import Definition
from stem.client.task.options import CallPlan
from stem.core.decisions.routing import WORKER_PREFIX, queue_of_worker
from stem.core.envelope import Push
from stem.core.errors import NoLiveWorkers
from stem.core.ids import content_key, uuid7
from stem.core.record import TaskRecord

if TYPE_CHECKING:
    from stem.control.revoking import RevokeResult

BROADCAST_ID = "broadcast"  # in the meta of each copy
EXPIRES_SECONDS = 3600.0  # from when a copy is due, for a worker that has died meanwhile
_LONGEST_ID = 128


@dataclass(frozen=True, slots=True)
class Broadcast:
    """One call as it is stored: a copy for each worker."""

    id: str
    workers: tuple[str, ...]
    pushes: list[Push]


class BroadcastHandle(TaskHandle[Any]):
    """Refers to the copies of one broadcast. `id` is that of the broadcast: each copy has it in its meta, as `broadcast`."""

    __slots__ = ("handles",)

    def __init__(
        self, store_connection: StoreConnection, broadcast_id: str, handles: Mapping[str, TaskHandle[Any]]
    ) -> None:
        super().__init__(
            store_connection, broadcast_id, TaskRecord.result, created=any(each.created for each in handles.values())
        )
        self.handles = dict(handles)  # by worker

    def __repr__(self) -> str:
        return f"BroadcastHandle({self.id!r}, workers={list(self.handles)!r})"

    @property
    def ids(self) -> list[str]:
        """The ids of the copies."""
        return [handle.id for handle in self.handles.values()]

    def status(self) -> dict[str, TaskRecord]:  # type: ignore[override]  # here and below: one for each worker
        """Return the current record of each worker's copy. Raises TaskNotFound."""
        return {worker: handle.status() for worker, handle in self.handles.items()}

    def get(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait until all have ended, and return the value of each worker. Raises what the first failed copy raises, or
        WaitTimeout."""
        return self._values(self.wait(timeout))

    def wait(self, timeout: float | None = None) -> dict[str, TaskRecord]:  # type: ignore[override]
        """Wait until all have ended, and return the record of each worker's copy. Raises WaitTimeout."""
        ends_at = None if timeout is None else time.monotonic() + timeout
        return {worker: handle.wait(_left(ends_at)) for worker, handle in self.handles.items()}

    def revoke(self, *, terminate: bool = False, reason: str = "") -> "RevokeResult":
        """Revoke all copies."""
        from stem.client.control import Control

        return Control(self._store_connection).revoke(*self.ids, terminate=terminate, reason=reason)

    async def arevoke(self, *, terminate: bool = False, reason: str = "") -> "RevokeResult":
        from stem.client.control import Control

        return await Control(self._store_connection).arevoke(*self.ids, terminate=terminate, reason=reason)

    async def astatus(self) -> dict[str, TaskRecord]:  # type: ignore[override]
        import asyncio

        return await asyncio.to_thread(self.status)

    async def aget(self, timeout: float | None = None) -> dict[str, Any]:
        return self._values(await self.await_ended(timeout))

    async def await_ended(self, timeout: float | None = None) -> dict[str, TaskRecord]:  # type: ignore[override]
        ends_at = None if timeout is None else time.monotonic() + timeout
        return {worker: await handle.await_ended(_left(ends_at)) for worker, handle in self.handles.items()}

    def __await__(self) -> Generator[Any, None, dict[str, Any]]:
        return self.aget().__await__()

    def _values(self, records: Mapping[str, TaskRecord]) -> dict[str, Any]:
        return {worker: handle.value_of(records[worker]) for worker, handle in self.handles.items()}


def broadcast(
    store_connection: StoreConnection, definition: Definition, plan: CallPlan, arguments: Mapping[str, Any]
) -> Broadcast:
    """Build the copies of one call. Raises NoLiveWorkers or InvalidArguments; writes nothing."""
    workers = live_workers(store_connection, definition.name)
    call_id = plan.id or uuid7(store_connection.clock(), os.urandom(10))
    pushes = []
    for worker in workers:
        own = _copy_plan(plan, call_id, worker)
        # Without a part per tenant, which the worker would have to look for.
        template = envelope_template(definition.name, own, is_fair=False)
        pushes.append(compose(store_connection, template, own, arguments, definition.signature))
    return Broadcast(call_id, tuple(workers), pushes)


def live_workers(store_connection: StoreConnection, task: str) -> list[str]:
    """Return the workers that run tasks of this namespace and do not say that they lack this one. Raises NoLiveWorkers."""
    if store_connection.eager_worker is not None:
        return [store_connection.eager_worker]
    store = store_connection.store
    pulses = retry_while_unavailable(store.heartbeats.all, store_connection.settings.timeout_seconds)
    beats = [pulse.heartbeat for pulse in pulses]
    live = [beat for beat in beats if beat.namespace == store.namespace and beat.runs_tasks]
    found = [beat.worker_id for beat in live if beat.may_have(task)]
    if not found:
        who = f"None of the {len(live)} live workers has" if live else "No live worker is there to run"
        raise NoLiveWorkers(
            f"{who} the broadcast {task}, so nothing was enqueued; start one with: stem worker start --app MODULE:NAME"
        )
    return found


def _copy_plan(plan: CallPlan, call_id: str, worker: str) -> CallPlan:
    """As the call's, for one worker. It expires, because the worker may never come back."""
    expires_seconds, expires_at = plan.expires_seconds, plan.expires_at
    if expires_seconds is None and expires_at is None:
        if plan.not_before is None:
            expires_seconds = (plan.delay_seconds or 0.0) + EXPIRES_SECONDS
        else:
            expires_at = plan.not_before + timedelta(seconds=EXPIRES_SECONDS)
    return msgspec.structs.replace(
        plan,
        id=_copy_id(call_id, worker),
        queue=queue_of_worker(worker),
        meta={**plan.meta, BROADCAST_ID: call_id},
        expires_seconds=expires_seconds,
        expires_at=expires_at,
    )


def _copy_id(call_id: str, worker: str) -> str:
    """The same for the same call and worker, so that a broadcast with an id of its own can be repeated."""
    plain = f"{call_id}.{queue_of_worker(worker).removeprefix(WORKER_PREFIX)}"
    return plain if len(plain) <= _LONGEST_ID else content_key([call_id, worker])


def _left(ends_at: float | None) -> float | None:
    return None if ends_at is None else max(0.0, ends_at - time.monotonic())
