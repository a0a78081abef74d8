"""Claim tasks while the pool has capacity; wait for more otherwise. Runs in a thread of its own."""

import logging
import time
from collections.abc import Callable
from threading import Event, Thread

from stem.contracts.store import Store
from stem.core.delivery import Delivery
from stem.core.errors import StemError
from stem.runtime.backoff import Backoff
from stem.worker.pool.in_flight import InFlightTasks
from stem.worker.pool.pool import Pool
from stem.worker.services.claim_order import FairShareOrder, PriorityOrder

log = logging.getLogger("stem.worker")

# The loop runs at least this often.
ROUND_SECONDS = 5.0
SHARED_ROUND_SECONDS = 0.1  # where closing the store cannot end the wait
QUICK_SECONDS, SLOW_SECONDS = 0.1, 1.0
MOST_AT_ONCE = 1000
MOST_UNWRITTEN = 5000  # endings not yet written: stop claiming from a store that takes none


class Fetcher:
    """Has its own store where possible: closing it ends the wait, and a new fetcher has a new connection.

    The number of tasks claimed ahead follows the run times: it doubles when as many tasks as it may hold have ended within
    0.1 s, and halves when that took more than 1 s, up to `prefetch`. So quick tasks come in large batches, and slow ones are
    left to other workers.
    """

    def __init__(
        self,
        store: Store,
        pool: Pool,
        in_flight: InFlightTasks,
        claim_order: PriorityOrder | FairShareOrder,
        admit: Callable[[list[Delivery]], bool],
        *,
        prefetch: int,
        lease_seconds: float,
        stall_seconds: float,
        owns_store: bool = True,
    ) -> None:
        self._store = store
        self._owns_store = owns_store
        # A wait must not look like a stall.
        self._round_seconds = min(ROUND_SECONDS if owns_store else SHARED_ROUND_SECONDS, stall_seconds / 2)
        self._pool = pool
        self._in_flight = in_flight
        self._claim_order = claim_order
        self._admit = admit
        self._prefetch = prefetch
        self._lease_seconds = lease_seconds
        self._ahead = min(prefetch, pool.concurrency)
        self._pace_from: tuple[float, int] | None = None  # a time, and how many tasks had ended by then
        self._backoff = Backoff("claiming")
        self._reduced_by: set[int] = set()  # tasks that were in flight when the store was lost
        self._has_capacity = Event()
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="fetcher", daemon=True)
        self.polled_at = time.monotonic()  # when a poll last finished, or was not needed
        self.has_polled = False
        self.fetched_at: float | None = None  # when the store last answered a claim
        self._failed_at = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Nothing is claimed once this has returned."""
        self._stopped.set()
        self._has_capacity.set()
        self.stop_handoff(for_good=True)
        if self._owns_store:
            self._store.upkeep.close()
        self._thread.join(timeout=10)
        self.stop_handoff(for_good=True)  # a slow call may have brought more

    def stop_handoff(self, *, for_good: bool = False) -> None:
        """Refuse handoffs until the next wait, or forever; tasks already handed over are admitted."""
        try:
            self._pass_on(self._store.broker.stop_handoff(for_good=for_good))
        except StemError as error:
            log.warning("store.disconnected while stopping the handoff: %s", error)

    @property
    def current_prefetch(self) -> int:
        """How many tasks it may claim ahead at the moment."""
        return self._ahead

    @property
    def is_failing(self) -> bool:
        """Whether the store failed after it last answered a claim."""
        return self._failed_at > (self.fetched_at or 0.0)

    def stop_prefetching(self) -> None:
        """Tasks take long: claim for free isolates only, until tasks are quick again."""
        self._ahead = 0
        self._pace_from = None

    def capacity_changed(self) -> None:
        """Called often; wakes the fetcher only when half of what it may hold has ended."""
        if not self._has_capacity.is_set() and self._pool.occupied <= self._pool.concurrency + self._allowance() // 2:
            self._has_capacity.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                capacity = self._wanted()
                if capacity <= 0:
                    self._await_capacity()
                    continue
                is_more = self._claim(capacity)
                self.polled_at = self.fetched_at = time.monotonic()
                self.has_polled = True
                if not is_more:
                    self._claim_order.wait(self._round_seconds, self._idle, self._lease_seconds)
                self._backoff.succeeded()
            except Exception as error:  # noqa: BLE001 - without this thread the worker would claim nothing any more
                if not self._stopped.is_set():
                    self._failed(error)

    def _claim(self, capacity: int) -> bool:
        """False: the queues held less than there is capacity for, so wait for more."""
        self._adjust_prefetch()
        limit = min(capacity, MOST_AT_ONCE)
        deliveries = self._claim_order.claim(limit, self._lease_seconds)
        self._pass_on(deliveries)
        if deliveries:
            self._backoff.succeeded()
        else:
            self._pace_from = None  # an empty queue says nothing about run times
        return len(deliveries) >= limit

    def _pass_on(self, deliveries: list[Delivery]) -> None:
        if deliveries and not self._admit(deliveries):
            self.stop_prefetching()

    def _adjust_prefetch(self) -> None:
        """Adjust by run times, not by the time between claims: tasks that started together end together."""
        now, ended = time.monotonic(), self._pool.finished
        began_at, before = self._pace_from or (now, ended)
        is_through = ended - before >= self._pool.concurrency + self._ahead
        if is_through and now - began_at < QUICK_SECONDS:
            self._ahead = min(self._prefetch, max(1, self._ahead * 2))
        elif not is_through and now - began_at > SLOW_SECONDS:
            self._ahead //= 2
        elif not is_through:
            self._pace_from = began_at, before
            return
        self._pace_from = now, ended

    def _wanted(self) -> int:
        pool = self._pool
        unwritten = len(self._in_flight) - pool.load
        return min(pool.concurrency + self._allowance() - pool.occupied, MOST_UNWRITTEN - unwritten)

    def _idle(self) -> int:
        """How many may be handed over: only what can start at once."""
        return max(0, min(self._wanted(), self._pool.concurrency - self._pool.occupied))

    def _allowance(self) -> int:
        """The prefetch; 0 while tasks run that were cut off from the store, whose leases others may have."""
        if self._reduced_by:
            self._reduced_by &= self._in_flight.by_number.keys()
            return 0
        return self._ahead

    def _await_capacity(self) -> None:
        self._has_capacity.clear()
        if self._wanted() <= 0:
            self._store.broker.release_wait()
            self.stop_handoff()
            self._has_capacity.wait(timeout=min(1.0, self._round_seconds))
        self.polled_at = time.monotonic()

    def _failed(self, error: Exception) -> None:
        # An error is an answer; only a poll that never returns is a stall.
        self.polled_at = self._failed_at = time.monotonic()
        if not self._backoff.is_failing:
            if isinstance(error, StemError):
                log.warning("store.disconnected while claiming: %s", error)
            else:
                log.error("fetcher.failed: %s", type(error).__name__, exc_info=error)
            self._reduced_by = set(self._in_flight.by_number)
            self._ahead = min(self._prefetch, self._pool.concurrency)
        self._stopped.wait(self._backoff.failed())
