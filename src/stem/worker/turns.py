"""Which queues are claimed from, and in what order: all as one, or, with fair share, tenant by tenant in turn."""

import time
from collections import deque
from collections.abc import Callable, Set

from stem.contracts.broker import Broker
from stem.core.delivery import Delivery
from stem.core.routing import is_of

# A tenant who was not there before is found within this time.
LOOK_SECONDS = 0.25


class AsOne:
    """Highest priority first over all queues; within it the oldest."""

    def __init__(self, broker: Broker, queues: list[str], paused: Set[str]) -> None:
        self._broker = broker
        self._queues = queues
        self._paused = paused  # by others, at any time

    def claim(self, limit: int, lease_seconds: float) -> list[Delivery]:
        queues = self._open()
        if not queues:
            return self._broker.stand_down()
        return self._broker.claim(queues, limit=limit, lease_seconds=lease_seconds)

    def wait(self, timeout_seconds: float, room: Callable[[], int], lease_seconds: float) -> None:
        queues = self._open()
        if len(queues) < len(self._queues):
            timeout_seconds = min(timeout_seconds, LOOK_SECONDS)  # one that is resumed is heard of soon
        if queues:
            self._broker.stand_by(
                queues,
                room=lambda: room() if self._open() == queues else 0,  # one may be paused meanwhile
                lease_seconds=lease_seconds,
                timeout_seconds=timeout_seconds,
            )
        else:
            time.sleep(timeout_seconds)

    def _open(self) -> list[str]:
        paused = self._paused
        return [queue for queue in self._queues if queue not in paused] if paused else self._queues


class InTurn:
    """Each tenant's queue gets an equal share of a claim, and what one leaves the others get; priority counts within a
    tenant. Whoever was served last comes last."""

    def __init__(self, broker: Broker, queues: list[str], paused: Set[str]) -> None:
        self._broker = broker
        self._queues = queues
        self._paused = paused
        self._turns: deque[str] = deque(queues)
        self._looked_at = 0.0

    def claim(self, limit: int, lease_seconds: float) -> list[Delivery]:
        self._look()
        found: list[Delivery] = []
        waiting = [queue for queue in self._turns if not any(is_of(paused, queue) for paused in self._paused)]
        for place, queue in enumerate(waiting):
            share = -(-(limit - len(found)) // (len(waiting) - place))
            if share <= 0:
                break
            got = self._broker.claim([queue], limit=share, lease_seconds=lease_seconds)
            found += got
            if got:
                self._turns.remove(queue)
                self._turns.append(queue)
        return found

    def wait(self, timeout_seconds: float, room: Callable[[], int], lease_seconds: float) -> None:  # noqa: ARG002
        """Nothing is handed over here: it would be out of turn."""
        self._broker.wait(list(self._turns), timeout_seconds=min(timeout_seconds, LOOK_SECONDS))

    def _look(self) -> None:
        """Follow the tenants who come and go."""
        if time.monotonic() - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = time.monotonic()
        depths = self._broker.depth()
        present = {name for name in depths if any(is_of(queue, name) for queue in self._queues)} | {*self._queues}
        kept = [name for name in self._turns if name in present]
        self._turns = deque([*sorted(present.difference(kept)), *kept])
