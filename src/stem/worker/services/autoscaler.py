"""Grow or shrink the pool with the load, as `core.decisions.autoscale` decides."""

import logging
import time
from collections.abc import Callable
from typing import Any

from stem import signals
from stem.contracts.store import Store
from stem.core.decisions.autoscale import Autoscale, Memory, Move, Snapshot, changed, decide
from stem.core.lifecycle import EventKind
from stem.worker.pool.pool import Pool

log = logging.getLogger("stem.worker")


class Autoscaler:
    """Off by default; the configuration can change at any time. Isolates that are removed finish their tasks."""

    def __init__(
        self,
        store: Store,
        pool: Pool,
        queues: list[str],
        worker: str,
        config: Autoscale,
        prefetch: Callable[[], int],
    ) -> None:
        """`prefetch` returns how many tasks the worker claims ahead at the moment."""
        self._prefetch = prefetch
        self._store = store
        self._pool = pool
        self._queues = queues
        self._worker = worker
        self.config = config
        self._fixed = pool.concurrency
        self._memory = Memory()

    def change(self, changes: dict[str, Any]) -> Autoscale:
        """Change the configuration from the next tick on. Raises ConfigError."""
        if changes:
            self.config = changed(self.config, changes)
            if not self.config.enabled:
                self._pool.resize(self._fixed)
        return self.config

    def seconds(self) -> float:
        """Seconds until the next tick."""
        return self.config.tick_seconds if self.config.enabled else 1.0

    def tick(self) -> None:
        if not self.config.enabled:
            return
        depth = self._store.broker.depth(self._queues)
        snapshot = Snapshot(
            queue_depth=sum(each.ready for each in depth.values()) + self._pool.waiting,
            in_flight=len(self._pool.running),
            isolates=self._pool.concurrency,
            prefetch=self._prefetch(),
            now=time.monotonic(),
        )
        move, self._memory = decide(self.config, snapshot, self._memory)
        if move is not None:
            self._make(move, snapshot.isolates)

    def _make(self, move: Move, isolates: int) -> None:
        self._pool.resize(move.target)
        log.info("worker.scaled from=%d to=%d reason=%s", isolates, move.target, move.reason)
        data = {"from": isolates, "to": move.target, "reason": move.reason}
        signals.autoscaled.send(signals.PoolScaled(self._worker, isolates, move.target, move.reason))
        self._store.events.note(EventKind.WORKER_SCALED, worker=self._worker, data=data)
