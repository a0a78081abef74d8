"""Looks at the load every tick and has the pool grow or shrink, as core's pure function decides."""

import logging
import time
from collections.abc import Callable
from typing import Any

from stem.contracts.store import Store
from stem.core.autoscale import Autoscale, Memory, Move, Snapshot, changed, decide
from stem.core.lifecycle import EventKind
from stem.worker.pool import Pool

log = logging.getLogger("stem.worker")


class Autoscaler:
    """Off unless its configuration says otherwise; that can be changed at any time. Leaving isolates drain."""

    def __init__(
        self,
        store: Store,
        pool: Pool,
        queues: list[str],
        worker: str,
        config: Autoscale,
        ahead: Callable[[], int],
    ) -> None:
        """`ahead`: how much the worker claims ahead of running at the moment, which follows the pace of its tasks."""
        self._ahead = ahead
        self._store = store
        self._pool = pool
        self._queues = queues
        self._worker = worker
        self.config = config
        self._fixed = pool.concurrency
        self._memory = Memory()

    def change(self, changes: dict[str, Any]) -> Autoscale:
        """Counts from the next tick on. Raises ConfigError."""
        if changes:
            self.config = changed(self.config, changes)
            if not self.config.enabled:
                self._pool.resize(self._fixed)
        return self.config

    def seconds(self) -> float:
        """Until the next tick; unhurried while there is nothing to decide."""
        return self.config.tick_seconds if self.config.enabled else 1.0

    def tick(self) -> None:
        if not self.config.enabled:
            return
        depth = self._store.broker.depth(self._queues)
        snapshot = Snapshot(
            queue_depth=sum(each.ready for each in depth.values()) + self._pool.waiting,
            in_flight=len(self._pool.running),
            isolates=self._pool.concurrency,
            prefetch=self._ahead(),
            now=time.monotonic(),
        )
        move, self._memory = decide(self.config, snapshot, self._memory)
        if move is not None:
            self._make(move, snapshot.isolates)

    def _make(self, move: Move, isolates: int) -> None:
        self._pool.resize(move.target)
        log.info("worker.scaled from=%d to=%d reason=%s", isolates, move.target, move.reason)
        data = {"from": isolates, "to": move.target, "reason": move.reason}
        self._store.events.note(EventKind.WORKER_SCALED, worker=self._worker, data=data)
