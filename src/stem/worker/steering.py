"""What a worker lets operators see and do: each a short question to the parts that know, or a word to those that act."""

import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stem.core.errors import StemError, UsageError
from stem.core.ratelimit import default_burst, parse_rate
from stem.core.revoke import RevokeRecord
from stem.worker.held import Held
from stem.worker.manifest import RateFacts
from stem.worker.settings import Mode

if TYPE_CHECKING:
    from stem.worker.parts import Parts

# How long the pool may take to say what became of a revoke: it never blocks, but may be busy.
ANSWER_SECONDS = 2.0
EARLIER = 1000
MOST_REVOKED = 1000  # ids in one reply


class Steering:
    """Safe from any thread. Nothing here waits for a task or a store, except what must be durable first."""

    def __init__(self, parts: "Parts", shut_down: Callable[[Mode], None]) -> None:
        self._parts = parts
        self._shut_down = shut_down
        self._since = time.monotonic()
        self._earlier: dict[str, str] = {}  # what lately became of revoked tasks

    @property
    def worker_id(self) -> str:
        return self._parts.settings.name

    @property
    def state(self) -> str:
        """`wedged`: it beats, and does not fetch."""
        parts = self._parts
        if parts.is_draining:
            return "draining"
        if time.monotonic() - parts.fetcher.polled_at > parts.settings.stall_seconds / 2:
            return "wedged"
        return "paused" if parts.paused and all(queue in parts.paused for queue in parts.queues) else "ok"

    def pong(self) -> dict[str, Any]:
        return {"pong": True, "workerId": self.worker_id, "state": self.state, "uptimeSeconds": self._uptime}

    def stats(self, include_tasks: bool = False) -> dict[str, Any]:
        parts, running = self._parts, self._parts.pool.running
        concurrency = parts.pool.concurrency
        told: dict[str, Any] = {
            "workerId": self.worker_id,
            "state": self.state,
            "namespace": parts.store.namespace,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "uptimeSeconds": self._uptime,
            "queues": parts.queues,
            "pausedQueues": sorted(parts.paused),
            "concurrency": concurrency,
            "activeConcurrency": len(parts.pool.brood.isolates()),
            "maxConcurrency": parts.autoscaler.config.maximum if parts.autoscaler.config.enabled else concurrency,
            "inflight": len(running),
            "reserved": max(0, parts.pool.load - len(running)),
            "queueDepth": self._depth(),
            "isolates": parts.pool.pids,
            "counters": dict(parts.settler.counters),
            "control": parts.responder.counts,
            "revoked": len(parts.marks.revoked),
            "revokesIgnored": parts.marks.ignored,
            "autoscale": msgspec.to_builtins(parts.autoscaler.config),
        }
        if include_tasks:
            told["active"] = self.active({})
        return told

    def active(self, filters: dict[str, Any]) -> list[dict[str, Any]]:
        """What runs, longest first. Filters: `queue`, `task` (its name), `id`."""
        wanted = {name: filters[name] for name in ("queue", "task", "id") if filters.get(name) is not None}
        told = [_told(held, seconds) for held, seconds in self._parts.pool.running]
        found = [each for each in told if all(each[name] == value for name, value in wanted.items())]
        return sorted(found, key=lambda each: -each["runSeconds"])

    def revoked(self) -> list[str]:
        return self._parts.marks.revoked.ids(MOST_REVOKED)

    def revoke(self, records: Sequence[RevokeRecord], terminate: bool, signal_name: str, /) -> dict[str, str]:
        """What became of each: `cancelled`, `terminating`, `running`, or `noted` for one that is not here."""
        holding = self._parts.marks.apply(records)
        reasons = {record.task_id: record.reason or "revoked" for record in holding}
        number = _signal_number(signal_name)
        told = self._parts.pool.revoke(reasons, terminate=terminate, signal_number=number).result(ANSWER_SECONDS)
        # The store is followed too, and may have brought the same a moment earlier: then this is what that came to.
        self._earlier.update(told)
        for task_id in list(self._earlier)[:-EARLIER]:
            del self._earlier[task_id]
        return {
            record.task_id: told.get(record.task_id)
            or self._earlier.get(record.task_id)
            or ("noted" if record.task_id in reasons else "stale")
            for record in records
        }

    def shutdown(self, mode: Mode) -> None:
        self._shut_down(mode)

    def autoscale(self, changes: dict[str, Any]) -> dict[str, Any]:
        told: dict[str, Any] = msgspec.to_builtins(self._parts.autoscaler.change(changes))
        return told

    def pause(self, queues: Sequence[str]) -> list[str]:
        return self._parts.pause(self._known(queues))

    def resume(self, queues: Sequence[str]) -> list[str]:
        return self._parts.resume(queues or sorted(self._parts.paused))

    def queue_status(self) -> dict[str, Any]:
        depths = self._parts.store.broker.depth(self._parts.queues)
        return {
            queue: {**msgspec.to_builtins(depth), "paused": queue in self._parts.paused}
            for queue, depth in depths.items()
        }

    def rate_limit(self, task: str, rate: str | None) -> dict[str, Any]:
        """From now on, in this worker; None lifts the limit. The code's own is back after a restart."""
        facts = self._parts.facts.get(task)
        if facts is None:
            raise UsageError(f"This worker has no task {task!r}; its tasks are {', '.join(sorted(self._parts.facts))}.")
        limit = None
        if rate is not None:
            parsed = parse_rate(rate)
            per = facts.rate.per if facts.rate is not None else None
            limit = RateFacts(parsed, default_burst(parsed), per)
        self._parts.facts[task] = msgspec.structs.replace(facts, rate=limit)
        return {"task": task, "rateLimit": rate}

    def recycle(self, isolates: Sequence[int] | None) -> dict[str, Any]:
        pids = self._parts.pool.pids if isolates is None else [pid for pid in isolates if pid in self._parts.pool.pids]
        self._parts.pool.recycle(pids, "asked for")
        return {"recycling": pids}

    def _depth(self) -> int | None:
        """How much is ready in its queues; None while the store does not answer."""
        try:
            return sum(each.ready for each in self._parts.store.broker.depth(self._parts.queues).values())
        except StemError:
            return None

    @property
    def _uptime(self) -> float:
        return round(time.monotonic() - self._since, 3)

    def _known(self, queues: Sequence[str]) -> list[str]:
        """Those of them that this worker serves; all of its own if none are named."""
        return [queue for queue in self._parts.queues if not queues or queue in queues]


def _told(held: Held, seconds: float) -> dict[str, Any]:
    delivery = held.delivery
    return {
        "id": delivery.lease.id,
        "task": delivery.name,
        "queue": delivery.queue,
        "attempt": delivery.attempt,
        "runSeconds": round(seconds, 3),
        "isRevoked": held.told_at > 0,
    }


def _signal_number(name: str) -> int:
    """Raises UsageError."""
    spelled = name.upper() if name.upper().startswith("SIG") else f"SIG{name.upper()}"
    try:
        return signal.Signals[spelled]
    except KeyError as error:
        raise UsageError(f"There is no signal {name!r}; use SIGTERM, SIGINT or SIGKILL.") from error
