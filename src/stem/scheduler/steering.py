"""What operators can see and do with a scheduler: ping it, read its counters, shut it down."""

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from stem.contracts.steering.control import ShutdownMode
from stem.core.errors import UsageError
from stem.core.pause import SignedScope
from stem.core.revoke import RevokeRecord
from stem.scheduler.beat import Beat

COMMANDS = frozenset({"ping", "stats", "shutdown"})


class BeatSteering:
    """Safe from any thread. `shut_down` begins to stop the process."""

    def __init__(self, name: str, namespace: str, beat: Beat, shut_down: Callable[[], None]) -> None:
        self._name = name
        self._namespace = namespace
        self._beat = beat
        self._shut_down = shut_down
        self._since = time.monotonic()
        self.is_draining = False
        self.command_counts: Callable[[], dict[str, int]] = dict

    @property
    def worker_id(self) -> str:
        return self._name

    @property
    def state(self) -> str:
        if self.is_draining:
            return "draining"
        return "ok" if self._beat.is_alive else "wedged"

    @property
    def uptime_seconds(self) -> float:
        return round(time.monotonic() - self._since, 3)

    def pong(self) -> dict[str, Any]:
        return {"pong": True, "workerId": self._name, "state": self.state, "uptimeSeconds": self.uptime_seconds}

    def stats(self, include_tasks: bool = False, /) -> dict[str, Any]:
        told: dict[str, Any] = {
            "workerId": self._name,
            "kind": "scheduler",
            "state": self.state,
            "namespace": self._namespace,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "uptimeSeconds": self.uptime_seconds,
            "isLeader": self._beat.is_leader,
            "driftSeconds": round(self._beat.drift_seconds, 3),
            "queues": [],
            "concurrency": 0,
            "activeConcurrency": 0,
            "maxConcurrency": 0,
            "inflight": 0,
            "reserved": 0,
            "queueDepth": None,
            "isolates": [],
            "counters": {"fired": self._beat.fired},
            "control": self.command_counts(),
        }
        return {**told, "active": []} if include_tasks else told

    def shutdown(self, _mode: ShutdownMode, /) -> None:
        self._shut_down()

    def active(self, _filters: dict[str, Any], /) -> list[dict[str, Any]]:
        return []

    def revoked(self) -> list[str]:
        return []

    def revoke(self, _records: Sequence[RevokeRecord], _terminate: bool, _signal: str, /) -> dict[str, str]:
        self._refuse()

    def autoscale(self, _changes: dict[str, Any], /) -> dict[str, Any]:
        self._refuse()

    def pause(self, _queues: Sequence[str], /) -> list[str]:
        self._refuse()

    def resume(self, _queues: Sequence[str], /) -> list[str]:
        self._refuse()

    def note_pauses(self, _signed: Mapping[str, SignedScope], /) -> None: ...

    def queue_status(self) -> dict[str, Any]:
        return {}

    def rate_limit(self, _task: str, _rate: str | None, /) -> dict[str, Any]:
        self._refuse()

    def recycle(self, _isolates: list[int] | None, /) -> dict[str, Any]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UsageError(f"{self._name} is a scheduler and runs no tasks; it obeys {', '.join(sorted(COMMANDS))}.")
