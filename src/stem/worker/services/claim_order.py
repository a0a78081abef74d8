"""The order in which queues are claimed from: strict priority, or round-robin per tenant."""

import time
from collections import deque
from collections.abc import Callable, Set

from stem.contracts.broker import Broker
from stem.core.decisions.routing import is_same_or_tenant_queue
from stem.core.delivery import Delivery

# A new tenant is found, and a resumed queue noticed, within this time.
LOOK_SECONDS = 0.25
OWN_SECONDS = 1.0  # how long a broadcast waits at a worker with a backlog


class PriorityOrder:
    """Highest priority first over all queues; within it the oldest. `own_queue` is this worker's, of broadcasts: what is in it
    does not wait behind a backlog."""

    def __init__(self, broker: Broker, queues: list[str], own_queue: str, paused: Set[str]) -> None:
        self._broker = broker
        self._queues = [*queues, own_queue]
        self._own_queue = own_queue
        self._paused = paused  # changed by others at any time
        self._has_backlog = False  # the last claim found as much as it asked for
        self._own_claimed_at = 0.0

    def claim(self, limit: int, lease_seconds: float) -> list[Delivery]:
        queues = self._open()
        if not queues:
            return self._broker.stop_handoff()
        if self._has_backlog and queues[-1] == self._own_queue:
            # Claiming from one queue is quickest, so its own is left out, and looked at alone now and then.
            if own := self._claim_own(limit, lease_seconds):
                return own
            queues = queues[:-1]
        found = self._broker.claim(queues, limit=limit, lease_seconds=lease_seconds) if queues else []
        self._has_backlog = len(found) >= limit
        return found

    def wait(self, timeout_seconds: float, room: Callable[[], int], lease_seconds: float) -> None:
        queues = self._open()
        if len(queues) < len(self._queues):
            timeout_seconds = min(timeout_seconds, LOOK_SECONDS)  # so that a resumed queue is noticed soon
        if queues:
            self._broker.wait_for_handoff(
                queues,
                room=lambda: room() if self._open() == queues else 0,  # a queue may be paused meanwhile
                lease_seconds=lease_seconds,
                timeout_seconds=timeout_seconds,
            )
        else:
            time.sleep(timeout_seconds)

    def _claim_own(self, limit: int, lease_seconds: float) -> list[Delivery]:
        if time.monotonic() - self._own_claimed_at < OWN_SECONDS:
            return []
        self._own_claimed_at = time.monotonic()
        return self._broker.claim([self._own_queue], limit=limit, lease_seconds=lease_seconds)

    def _open(self) -> list[str]:
        paused = self._paused
        return [queue for queue in self._queues if queue not in paused] if paused else self._queues


class FairShareOrder:
    """Each tenant's queue gets an equal share of a claim; what one leaves goes to the others. Priority counts within a tenant.
    The tenant served last comes last."""

    def __init__(self, broker: Broker, queues: list[str], own_queue: str, paused: Set[str]) -> None:
        self._broker = broker
        self._queues = [*queues, own_queue]
        self._paused = paused
        self._order: deque[str] = deque(self._queues)
        self._looked_at = 0.0

    def claim(self, limit: int, lease_seconds: float) -> list[Delivery]:
        self._look()
        found: list[Delivery] = []
        waiting = [
            queue for queue in self._order if not any(is_same_or_tenant_queue(paused, queue) for paused in self._paused)
        ]
        for place, queue in enumerate(waiting):
            share = -(-(limit - len(found)) // (len(waiting) - place))
            if share <= 0:
                break
            got = self._broker.claim([queue], limit=share, lease_seconds=lease_seconds)
            found += got
            if got:
                self._order.remove(queue)
                self._order.append(queue)
        return found

    def wait(self, timeout_seconds: float, room: Callable[[], int], lease_seconds: float) -> None:  # noqa: ARG002
        """Wait without a handoff, which would ignore the order."""
        self._broker.wait(list(self._order), timeout_seconds=min(timeout_seconds, LOOK_SECONDS))

    def _look(self) -> None:
        """Find tenants that have come or gone."""
        if time.monotonic() - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = time.monotonic()
        depths = self._broker.depth()
        present = {name for name in depths if any(is_same_or_tenant_queue(queue, name) for queue in self._queues)} | {
            *self._queues
        }
        kept = [name for name in self._order if name in present]
        self._order = deque([*sorted(present.difference(kept)), *kept])
