"""A small worker to be steered, its ears, and commands made by hand."""

import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from stem.contracts.steering.control import CommandReceiver, ShutdownMode
from stem.contracts.store import Store
from stem.control.listener import ControlListener
from stem.control.responder import Responder
from stem.control.transports.broadcast import BroadcastTransport
from stem.control.transports.broker import BrokerTransport
from stem.core.control import Command
from stem.core.heartbeat import Heartbeat
from stem.core.pause import SignedScope
from stem.core.revoke import RevokeRecord
from stem.runtime.keys import Keyring

GONE_PID = 2**22 + 1  # above what Linux gives


class Steered:
    """Does nothing but note what it was told to do, and when."""

    def __init__(self, worker_id: str = "w1", state: str = "ok") -> None:
        self.worker_id = worker_id
        self.state = state
        self.told: list[tuple[Any, ...]] = []
        self.told_at = 0.0
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def pong(self) -> dict[str, Any]:
        self._note("pong")
        return {"state": self.state}

    def stats(self, include_tasks: bool, /) -> dict[str, Any]:
        self._note("stats", include_tasks)
        return {"concurrency": 4}

    def active(self, filters: dict[str, Any], /) -> list[dict[str, Any]]:
        self._note("active", filters)
        return [{"id": "t1"}]

    def revoked(self) -> list[str]:
        self._note("revoked")
        return []

    def revoke(self, records: list[RevokeRecord], terminate: bool, signal: str, /) -> dict[str, str]:
        self._note("revoke", [(record.task_id, record.version) for record in records], terminate, signal)
        self.may_go_on.wait(20)
        return {record.task_id: "noted" for record in records}

    def shutdown(self, mode: ShutdownMode, /) -> None:
        self._note("shutdown", mode)

    def autoscale(self, changes: dict[str, Any], /) -> dict[str, Any]:
        self._note("autoscale", changes)
        return {"min": 2, **changes}

    def pause(self, queues: Sequence[str], /) -> list[str]:
        self._note("pause", list(queues))
        return list(queues)

    def resume(self, queues: Sequence[str], /) -> list[str]:
        self._note("resume", list(queues))
        return []

    def note_pauses(self, signed: Mapping[str, SignedScope], /) -> None:
        if signed:
            self._note("note_pauses", dict(signed))

    def queue_status(self) -> dict[str, Any]:
        self._note("queue_status")
        return {"default": {"paused": False}}

    def rate_limit(self, task: str, rate: str | None, /) -> dict[str, Any]:
        self._note("rate_limit", task, rate)
        return {"task": task, "rateLimit": rate}

    def recycle(self, isolates: list[int] | None, /) -> dict[str, Any]:
        self._note("recycle", isolates)
        return {"recycling": isolates or [1, 2]}

    def _note(self, *what: Any) -> None:
        self.told.append(what)
        self.told_at = time.monotonic()


class OnDuty:
    """A worker that beats, and hears its own box and the broadcast."""

    def __init__(self, store: Store, worker: Steered, responder: Responder, transports: list[CommandReceiver]) -> None:
        self.store = store
        self.worker = worker
        self.responder = responder
        self.listener = ControlListener(transports, responder, listen_seconds=0.2)

    @property
    def told(self) -> list[tuple[Any, ...]]:
        return self.worker.told

    @property
    def counts(self) -> dict[str, int]:
        return self.responder.counts


@contextmanager
def on_duty(
    store: Store,
    *names: str,
    keyring: Keyring | None = None,
    namespace: str | None = None,
    commands_per_second: float = 1e6,
    reply_seconds: float = 60.0,
    more: Sequence[CommandReceiver] = (),
) -> Iterator[list[OnDuty]]:
    """Workers that are there for as long as the block lasts, each with a thread for its box and one for the broadcast."""
    there = []
    for name in names:
        responder = Responder(
            worker := Steered(name),
            namespace=namespace or store.namespace,
            clock=store.upkeep.now,
            keyring=keyring or Keyring({}),
            commands_per_second=commands_per_second,
        )
        ears: list[CommandReceiver] = [
            kind(store.mail, namespace or store.namespace, name, reply_seconds=reply_seconds)
            for kind in (BrokerTransport, BroadcastTransport)
        ]
        there.append(OnDuty(store, worker, responder, [*ears, *more]))
        there[-1].listener.start()
        beat(store, name)
    try:
        yield there
    finally:
        for each in there:
            each.worker.may_go_on.set()
            each.listener.stop()
            store.heartbeats.forget(each.worker.worker_id)


def beat(
    store: Store, worker: str, *, host: str | None = None, pid: int | None = None, seconds: float = 60, **extras: Any
) -> None:
    heartbeat = Heartbeat(
        worker_id=worker, namespace=store.namespace, host=host or socket.gethostname(), pid=pid or os.getpid(),
        uptime_seconds=1.0, concurrency=1, in_flight=0, queues=["default"], extras=extras,
    )  # fmt: skip
    store.heartbeats.beat(heartbeat, ttl_seconds=seconds)


def a_command(now: float, type: str = "ping", *, life: float = 5.0, age: float = 0.0, **fields: Any) -> Command:
    """As an caller would have made it `age` seconds before `now`."""
    issued_at = int((now - age) * 1000)
    made: dict[str, Any] = {
        "request_id": f"r-{secrets.token_hex(8)}",
        "type": type,
        "targets": ("*",),
        "payload": {},
        "timeout_ms": max(1, round(life * 1000)),
        "nonce": secrets.token_hex(16),
        "issued_at": issued_at,
        "expires_at": issued_at + max(1, round(life * 1000)),
    }
    return Command(**{**made, **fields})
