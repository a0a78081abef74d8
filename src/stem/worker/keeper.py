"""Keeps what this worker holds: renews every lease and place in one call a tick, and says which are lost."""

import time

from stem.contracts.store import Store
from stem.worker.held import Held
from stem.worker.pool import Pool

AGAIN_SECONDS = 1.0  # after a store that was away: leases may have run out, and others wait a grace only
_LONG = b'"visibilityTimeout":null'  # as our own senders write it; others cost one renewal


class Keeper:
    def __init__(self, store: Store, pool: Pool, lease_seconds: float) -> None:
        self._store = store
        self._pool = pool
        self._lease_seconds = lease_seconds
        self._extensions: dict[int, float] = {}
        self._is_behind = False  # the last renewal failed

    @property
    def tick_seconds(self) -> float:
        return self._lease_seconds / 4

    @property
    def pause_seconds(self) -> float:
        return min(AGAIN_SECONDS, self.tick_seconds) if self._is_behind else self.tick_seconds

    def extend(self, held: Held, seconds: float) -> None:
        """With the next tick."""
        self._extensions[held.number] = seconds

    def keep_short(self, helds: list[Held]) -> None:
        """Tasks may ask for a lease shorter than ours, which would be over before the first tick."""
        short = [held.lease for held in helds if _LONG not in held.delivery.body]
        if short:
            self._store.broker.renew(short, lease_seconds=self._lease_seconds)

    def tick(self) -> None:
        self._is_behind = True
        self._renew()
        self._is_behind = False

    def _renew(self) -> None:
        now = time.monotonic()
        self._renew_extended()
        due = [held for held in list(self._pool.held.values()) if now - held.renewed_at >= self.tick_seconds * 0.9]
        if not due:
            return
        refused = self._store.broker.renew([held.lease for held in due], lease_seconds=self._lease_seconds)
        for held in due:
            held.renewed_at = now
        places = [place for held in due for place in held.places]
        if places:
            self._store.limiter.hold(places)
        if refused:
            self._lose({lease.id for lease in refused}, due)

    def _renew_extended(self) -> None:
        for number, seconds in list(self._extensions.items()):
            held = self._pool.held.get(number)
            if held is not None:
                self._store.broker.renew([held.lease], lease_seconds=seconds)
            if self._extensions.get(number) == seconds:  # and no other was asked for meanwhile
                self._extensions.pop(number, None)

    def _lose(self, ids: set[str], due: list[Held]) -> None:
        # One that ends at this very moment is refused too, and is held no more.
        self._pool.lose([held for held in due if held.lease.id in ids and held.number in self._pool.held])
