"""Claims what the pool has room for, in a thread of its own, and sleeps until there is something to claim."""

import logging
import time
from collections.abc import Callable
from threading import Event, Thread

from stem.contracts.store import Store
from stem.core.delivery import Delivery
from stem.core.errors import StemError
from stem.worker.backoff import Backoff
from stem.worker.pool import Pool
from stem.worker.turns import AsOne, InTurn

log = logging.getLogger("stem.worker")

# The loop comes round at least this often, also with nothing to do.
ROUND_SECONDS = 5.0
SHARED_ROUND_SECONDS = 0.1  # where nothing else would end the waiting
QUICK_SECONDS, SLOW_SECONDS = 0.1, 1.0
MOST_AT_ONCE = 1000
MOST_UNWRITTEN = 5000  # endings that the store has not taken yet; a store that takes none must not be run empty


class Fetcher:
    """It has a store of its own, where that can be: closing it ends the waiting, and a new one is a new connection.

    How many it holds ahead follows the pace: doubled when as many as it may hold have ended within a tenth of a second,
    halved when that took longer than one, up to `prefetch`. So quick tasks come in large batches, and slow ones are not
    hoarded.
    """

    def __init__(
        self,
        store: Store,
        pool: Pool,
        turns: AsOne | InTurn,
        offer: Callable[[list[Delivery]], None],
        *,
        prefetch: int,
        lease_seconds: float,
        stall_seconds: float,
        owns_store: bool = True,
    ) -> None:
        self._store = store
        self._owns_store = owns_store
        # A rest must not look like a stall.
        self._round_seconds = min(ROUND_SECONDS if owns_store else SHARED_ROUND_SECONDS, stall_seconds / 2)
        self._pool = pool
        self._turns = turns
        self._offer = offer
        self._prefetch = prefetch
        self._lease_seconds = lease_seconds
        self._ahead = min(prefetch, pool.concurrency)
        self._pace_from: tuple[float, int] | None = None  # a moment, and how many had ended by then
        self._backoff = Backoff("claiming")
        self._reduced_by: set[int] = set()  # what ran when the store was lost
        self._room = Event()
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="fetcher", daemon=True)
        self.polled_at = time.monotonic()  # when a poll was last finished, well or badly, or was not called for
        self.has_polled = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Nothing is claimed once this has returned."""
        self._stopped.set()
        self._room.set()
        self.let_go(for_good=True)
        if self._owns_store:
            self._store.upkeep.close()
        self._thread.join(timeout=10)
        self.let_go(for_good=True)  # what a call that took long has brought to the last

    def let_go(self, *, for_good: bool = False) -> None:
        """Nothing is handed over any more, until it waits again, or ever; what was goes to the pool, which knows better."""
        try:
            self._hand_on(self._store.broker.stand_down(for_good=for_good))
        except StemError as error:
            log.warning("store.lost while standing down: %s", error)

    @property
    def ahead(self) -> int:
        """How many it may claim ahead of running at the moment."""
        return self._ahead

    def hold_nothing(self) -> None:
        """Tasks take long: claim for free isolates only, until they are quick again."""
        self._ahead = 0
        self._pace_from = None

    def has_room(self) -> None:
        """Called often; wakes the fetcher only when half of what it may hold is gone."""
        if not self._room.is_set() and self._pool.taken <= self._pool.concurrency + self._allowance() // 2:
            self._room.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                room = self._wanted()
                if room <= 0:
                    self._await_room()
                    continue
                is_more = self._claim(room)
                self.polled_at, self.has_polled = time.monotonic(), True
                if not is_more:
                    self._turns.wait(self._round_seconds, self._idle, self._lease_seconds)
                self._backoff.succeeded()
            except Exception as error:  # noqa: BLE001 - without this thread the worker would claim nothing any more
                if not self._stopped.is_set():
                    self._lost(error)

    def _claim(self, room: int) -> bool:
        """False: there was less than there is room for, and it is time to wait for more."""
        self._pace()
        limit = min(room, MOST_AT_ONCE)
        deliveries = self._turns.claim(limit, self._lease_seconds)
        self._hand_on(deliveries)
        if deliveries:
            self._backoff.succeeded()
        else:
            self._pace_from = None  # there is nothing to do, which says nothing of how long tasks take
        return len(deliveries) >= limit

    def _hand_on(self, deliveries: list[Delivery]) -> None:
        if deliveries:
            self._offer(deliveries)

    def _pace(self) -> None:
        """Not by the time between two claims: tasks that began together end together, however long they took."""
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
        unwritten = len(pool.held) - pool.load
        return min(pool.concurrency + self._allowance() - pool.taken, MOST_UNWRITTEN - unwritten)

    def _idle(self) -> int:
        """As many may be handed over: what nobody here can begin at once is for others to claim."""
        return max(0, min(self._wanted(), self._pool.concurrency - self._pool.taken))

    def _allowance(self) -> int:
        """Nothing ahead while tasks run that were cut off from the store: their leases may have gone to others."""
        if self._reduced_by:
            self._reduced_by &= self._pool.held.keys()
            return 0
        return self._ahead

    def _await_room(self) -> None:
        self._room.clear()
        if self._wanted() <= 0:
            self._store.broker.rest()
            self.let_go()
            self._room.wait(timeout=min(1.0, self._round_seconds))
        self.polled_at = time.monotonic()

    def _lost(self, error: Exception) -> None:
        self.polled_at = time.monotonic()  # it was told no; a loop that is told nothing is the one that hangs
        if not self._backoff.is_failing:
            if isinstance(error, StemError):
                log.warning("store.lost while claiming: %s", error)
            else:
                log.error("claiming.failed: %s", type(error).__name__, exc_info=error)
            self._reduced_by = set(self._pool.held)
            self._ahead = min(self._prefetch, self._pool.concurrency)
        self._stopped.wait(self._backoff.failed())
