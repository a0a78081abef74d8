"""What operators can see and do with a worker."""

import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from stem.core.decisions.ratelimit import default_burst, parse_rate
from stem.core.errors import StemError, UsageError
from stem.core.lifecycle import EventKind
from stem.core.pause import SignedScope
from stem.core.revoke import RevokeRecord
from stem.worker.fork.manifest import RateFacts
from stem.worker.pool.in_flight import InFlightTask
from stem.worker.settings import Mode
from stem.worker.wiring import Services

# How long the pool may take to answer a revoke: it never blocks, but may be busy.
ANSWER_SECONDS = 2.0
EARLIER = 1000
MOST_REVOKED = 1000  # ids in one reply


class Steering:
    """Safe from any thread. Nothing here waits for a task."""

    def __init__(self, services: Services, shut_down: Callable[[Mode], None]) -> None:
        self._services = services
        self._shut_down = shut_down
        self.command_counts: Callable[[], dict[str, int]] = dict  # set once there is a responder
        self._since = time.monotonic()
        self._earlier: dict[str, str] = {}  # recent answers by task id

    @property
    def worker_id(self) -> str:
        return self._services.settings.name

    @property
    def state(self) -> str:
        """`ok`, `paused`, `draining`, or `wedged` if it sends heartbeats and does not fetch, or its fork server hangs."""
        services = self._services
        if services.is_draining:
            return "draining"
        silent_seconds = max(
            time.monotonic() - services.fetcher.polled_at, services.pool.fork_server_ping.unanswered_seconds
        )
        if silent_seconds > services.settings.stall_seconds / 2:
            return "wedged"
        return "paused" if services.paused and all(queue in services.paused for queue in services.queues) else "ok"

    def pong(self) -> dict[str, Any]:
        return {"pong": True, "workerId": self.worker_id, "state": self.state, "uptimeSeconds": self._uptime}

    def stats(self, include_tasks: bool = False) -> dict[str, Any]:
        services, running = self._services, self._services.pool.running
        concurrency = services.pool.concurrency
        told: dict[str, Any] = {
            "workerId": self.worker_id,
            "state": self.state,
            "namespace": services.store.namespace,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "uptimeSeconds": self._uptime,
            "queues": services.queues,
            "pausedQueues": sorted(services.paused),
            "concurrency": concurrency,
            "activeConcurrency": len(services.pool.isolates.active()),
            "maxConcurrency": services.autoscaler.config.maximum if services.autoscaler.config.enabled else concurrency,
            "inflight": len(running),
            "reserved": max(0, services.pool.load - len(running)),
            "queueDepth": self._depth(),
            "isolates": services.pool.pids,
            "isolateStates": self.isolates(),
            "counters": dict(services.accounting.counters),
            "control": self.command_counts(),
            "revoked": len(services.revokes.revoked),
            "revokesIgnored": services.revokes.ignored,
            "autoscale": msgspec.to_builtins(services.autoscaler.config),
        }
        if include_tasks:
            told["active"] = self.active({})
        return told

    def active(self, filters: dict[str, Any]) -> list[dict[str, Any]]:
        """Running tasks, longest first. Filters: `queue`, `task` (its name), `id`."""
        wanted = {name: filters[name] for name in ("queue", "task", "id") if filters.get(name) is not None}
        told = [
            {**_describe(task, seconds), "isolate": isolate.handle.pid}
            for isolate, runs in self._services.pool.running_by_isolate
            for task, seconds in runs
        ]
        found = [each for each in told if all(each[name] == value for name, value in wanted.items())]
        return sorted(found, key=lambda each: -each["runSeconds"])

    def isolates(self) -> list[dict[str, Any]]:
        """Each isolate: its process, what it runs now, how many tasks it has run and how many more it holds."""
        return [
            {
                "pid": isolate.handle.pid,
                "kind": "inline" if isolate.handle.is_inline else "isolate",
                "state": isolate.state(is_busy=bool(runs)),
                "running": [
                    {"id": task.lease.id, "task": task.delivery.name, "runSeconds": round(s, 3)} for task, s in runs
                ],
                "reserved": max(0, len(isolate.assigned) - len(runs)),
                "finished": isolate.finished,
            }
            for isolate, runs in self._services.pool.running_by_isolate
        ]

    def revoked(self) -> list[str]:
        return self._services.revokes.revoked.ids(MOST_REVOKED)

    def revoke(self, records: Sequence[RevokeRecord], terminate: bool, signal_name: str, /) -> dict[str, str]:
        """What became of each: `cancelled`, `terminating`, `running`, or `noted` for one that is not here."""
        holding = self._services.revokes.apply(records)
        reasons = {record.task_id: record.reason or "revoked" for record in holding}
        number = _signal_number(signal_name)
        told = self._services.pool.revoke(reasons, terminate=terminate, signal_number=number).result(ANSWER_SECONDS)
        # The revoke may have been read from the store a moment earlier: then this is what it led to.
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
        told: dict[str, Any] = msgspec.to_builtins(self._services.autoscaler.change(changes))
        return told

    def pause(self, queues: Sequence[str]) -> list[str]:
        """Stop claiming from the queues, all of this worker's if none are named. Returns what is paused now."""
        return self._pause(self._known(queues))

    def resume(self, queues: Sequence[str]) -> list[str]:
        return self._resume(queues or sorted(self._services.paused))

    def note_pauses(self, signed: Mapping[str, SignedScope]) -> None:
        self._services.revokes.note_pauses(signed)

    def follow_revokes(self) -> None:
        """Apply revokes and pauses that the store has and no command has brought."""
        revokes = self._services.revokes
        before = revokes.paused
        if not revokes.refresh():
            return
        if paused := revokes.paused - before:
            self._pause(sorted(paused))
        if resumed := before - revokes.paused:
            self._resume(sorted(resumed))
        for record in revokes.records_for([task.lease.id for task in self._services.in_flight.all()]).values():
            self.revoke([record], record.terminate, record.signal or "SIGTERM")

    def queue_status(self) -> dict[str, Any]:
        depths = self._services.store.broker.depth(self._services.queues)
        signed = self._services.revokes.signed_pause
        return {
            queue: {**msgspec.to_builtins(depth), "paused": queue in self._services.paused, **signed(queue)}
            for queue, depth in depths.items()
        }

    def rate_limit(self, task: str, rate: str | None) -> dict[str, Any]:
        """Change a task's rate limit in this worker; None removes it. A restart restores the code's own."""
        facts = self._services.facts.get(task)
        if facts is None:
            raise UsageError(
                f"This worker has no task {task!r}; its tasks are {', '.join(sorted(self._services.facts))}."
            )
        limit = None
        if rate is not None:
            parsed = parse_rate(rate)
            per = facts.rate.per if facts.rate is not None else None
            limit = RateFacts(parsed, default_burst(parsed), per)
        self._services.facts[task] = msgspec.structs.replace(facts, rate=limit)
        return {"task": task, "rateLimit": rate}

    def recycle(self, isolates: Sequence[int] | None) -> dict[str, Any]:
        pids = (
            self._services.pool.pids
            if isolates is None
            else [pid for pid in isolates if pid in self._services.pool.pids]
        )
        self._services.pool.recycle(pids, "asked for")
        return {"recycling": pids}

    def _pause(self, queues: Sequence[str]) -> list[str]:
        services = self._services
        services.paused.update(queues)
        services.pool.pause(queues)
        services.fetcher.stop_handoff()
        services.record_event(EventKind.WORKER_PAUSED, {"queues": list(queues)})
        return sorted(services.paused)

    def _resume(self, queues: Sequence[str]) -> list[str]:
        services = self._services
        services.paused.difference_update(queues)
        services.pool.resume(queues)
        services.record_event(EventKind.WORKER_RESUMED, {"queues": list(queues)})
        return sorted(services.paused)

    def _depth(self) -> int | None:
        """How much is ready in its queues; None while the store does not answer."""
        try:
            return sum(each.ready for each in self._services.store.broker.depth(self._services.queues).values())
        except StemError:
            return None

    @property
    def _uptime(self) -> float:
        return round(time.monotonic() - self._since, 3)

    def _known(self, queues: Sequence[str]) -> list[str]:
        """Those of them that this worker serves; all of its own if none are named, except that of broadcasts."""
        if not queues:
            return self._services.queues
        return [queue for queue in (*self._services.queues, self._services.own_queue) if queue in queues]


def _describe(task: InFlightTask, seconds: float) -> dict[str, Any]:
    delivery = task.delivery
    return {
        "id": delivery.lease.id,
        "task": delivery.name,
        "queue": delivery.queue,
        "attempt": delivery.attempt,
        "runSeconds": round(seconds, 3),
        "isRevoked": task.stop_requested_at > 0,
    }


def _signal_number(name: str) -> int:
    """Raises UsageError."""
    spelled = name.upper() if name.upper().startswith("SIG") else f"SIG{name.upper()}"
    try:
        return signal.Signals[spelled]
    except KeyError as error:
        raise UsageError(f"There is no signal {name!r}; use SIGTERM, SIGINT or SIGKILL.") from error
