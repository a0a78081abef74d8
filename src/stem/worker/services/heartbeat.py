"""Send the worker's heartbeat, with its load, counters and how to reach it."""

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping

from stem.contracts.store import Store
from stem.core.decisions.autoscale import Autoscale
from stem.core.delivery import Depth
from stem.core.heartbeat import Heartbeat
from stem.runtime.process import resident_bytes
from stem.worker.fork.manifest import TaskFacts
from stem.worker.pool.pool import Pool
from stem.worker.services.queue_depths import queue_depths
from stem.worker.settings import WorkerSettings

MOST_TASKS = 200


class HeartbeatSender:
    def __init__(
        self,
        store: Store,
        pool: Pool,
        settings: WorkerSettings,
        queues: list[str],
        counters: Mapping[str, int],
        state: Callable[[], str],
        reached_by: Mapping[str, object],
        tasks: Iterable[TaskFacts],
        autoscale: Callable[[], Autoscale],
        *,
        is_fair: bool = False,
    ) -> None:
        """`reached_by`: the addresses under which commands find this worker. `tasks`: what it runs, for clients that enqueue by
        name without the app; omitted above MOST_TASKS, because every command reads all heartbeats."""
        routes = {name: [task.queue, task.max_retries] for task in tasks for name in (task.name, *task.aliases)}
        self._tasks = routes if len(routes) <= MOST_TASKS else {}
        self._store = store
        self._is_fair = is_fair
        self.depths: Mapping[str, Depth] = {}  # of the last heartbeat
        self.beaten_at: float | None = None  # the last that was stored
        self.failed_at: float | None = None  # the last that was not
        self._pool = pool
        self._settings = settings
        self._queues = queues
        self._counters = counters
        self._state = state
        self._autoscale = autoscale
        self._reached_by = dict(reached_by)
        self._since = time.monotonic()
        self._host = socket.gethostname()

    def beat(self) -> None:
        """Raises StemError."""
        try:
            self._beat()
        except BaseException:
            self.failed_at = time.monotonic()
            raise
        self.beaten_at = time.monotonic()

    def leave(self) -> None:
        self._store.heartbeats.forget(self._settings.name)

    def _beat(self) -> None:
        self.depths = depth = queue_depths(self._store.broker, self._queues, is_fair=self._is_fair)
        heartbeat = Heartbeat(
            worker_id=self._settings.name,
            namespace=self._store.namespace,
            host=self._host,
            pid=os.getpid(),
            uptime_seconds=round(time.monotonic() - self._since, 3),
            concurrency=self._pool.concurrency,
            in_flight=len(self._pool.running),
            queues=self._queues,
            queue_depth=sum(each.ready for each in depth.values()),
            memory_bytes=sum(resident_bytes(pid, is_alone=True) for pid in (os.getpid(), *self._pool.pids)),
            load=os.getloadavg()[0],
            counters=dict(self._counters),
            extras={
                "state": self._state(),
                "held": self._pool.load,
                "isolates": self._pool.pids,
                "beatSeconds": self._settings.heartbeat_seconds,
                "tasks": self._tasks,
                **self._bounds(),
                **self._reached_by,
            },
        )
        self._store.heartbeats.beat(heartbeat, ttl_seconds=self._settings.heartbeat_seconds * 3)

    def _bounds(self) -> dict[str, object]:
        config = self._autoscale()
        return {"autoscale": {"min": config.minimum, "max": config.maximum}} if config.enabled else {}
