"""Renew the leases and limiter places of all tasks in flight in one call per tick, and drop those that are lost."""

import time

from stem.contracts.store import Store
from stem.worker.pool.in_flight import InFlightTask, InFlightTasks
from stem.worker.pool.pool import Pool
from stem.worker.settings import RENEW_AGAIN_SECONDS

CATCH_UP_SECONDS = 1.0
_LONG = b'"visibilityTimeout":null'  # as our clients write it; others cost one extra renewal


class LeaseRenewer:
    def __init__(self, store: Store, pool: Pool, in_flight: InFlightTasks, lease_seconds: float) -> None:
        self._store = store
        self._pool = pool
        self._in_flight = in_flight
        self._lease_seconds = lease_seconds
        self._extensions: dict[int, float] = {}
        self._is_behind = False  # the last renewal failed

    @property
    def tick_seconds(self) -> float:
        return self._lease_seconds / 4

    @property
    def pause_seconds(self) -> float:
        return min(RENEW_AGAIN_SECONDS, self.tick_seconds) if self._is_behind else self.tick_seconds

    def extend(self, task: InFlightTask, seconds: float) -> None:
        """Extend the lease with the next tick."""
        self._extensions[task.number] = seconds

    def renew_short(self, tasks: list[InFlightTask]) -> None:
        """Renew leases that would expire before the first tick: a task may ask for a shorter one."""
        short = [task.lease for task in tasks if _LONG not in task.delivery.body]
        if short:
            self._store.broker.renew(short, lease_seconds=self._lease_seconds)

    def tick(self) -> None:
        self._is_behind = True
        self._renew()
        self._is_behind = False

    def _renew(self) -> None:
        now = time.monotonic()
        self._renew_extended()
        due = [task for task in self._in_flight.all() if now - task.renewed_at >= self.tick_seconds * 0.9]
        if any(now - task.renewed_at >= self.tick_seconds * 2 for task in due):
            self._pool.catch_up(CATCH_UP_SECONDS)  # this worker was frozen: do not renew what died meanwhile
        # A renewal says that the task lives, and would undo the death that a reclaim has counted.
        due = [task for task in due if not task.has_died]
        if not due:
            return
        refused = self._store.broker.renew([task.lease for task in due], lease_seconds=self._lease_seconds)
        for task in due:
            task.renewed_at = now
        places = [place for task in due for place in task.places]
        if places:
            self._store.limiter.hold(places)
        if refused:
            self._lose({lease.id for lease in refused}, due)

    def _renew_extended(self) -> None:
        for number, seconds in list(self._extensions.items()):
            task = self._in_flight.by_number.get(number)
            if task is not None:
                self._store.broker.renew([task.lease], lease_seconds=seconds)
            if self._extensions.get(number) == seconds:  # and no other was requested meanwhile
                self._extensions.pop(number, None)

    def _lose(self, ids: set[str], due: list[InFlightTask]) -> None:
        # A task that ends at this moment is refused as well, and is no longer in flight.
        self._pool.drop_lost([task for task in due if task.lease.id in ids and task in self._in_flight])
