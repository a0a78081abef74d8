"""A delivery that this worker holds, from its claim to its settling."""

import time
from dataclasses import dataclass, field
from itertools import count
from signal import SIGTERM

from stem.contracts.limiter import Place
from stem.core.delivery import Delivery, Lease
from stem.core.outcome import Outcome
from stem.worker.manifest import TaskFacts

_numbers = count(1)


@dataclass(eq=False, slots=True)
class Held:
    """`number` names it between supervisor and isolate, and is never used again."""

    delivery: Delivery
    facts: TaskFacts | None  # None: no task of that name; the isolate will say so
    number: int = field(default_factory=_numbers.__next__)
    claimed_at: float = field(default_factory=time.monotonic)
    renewed_at: float = field(default_factory=time.monotonic)
    places: tuple[Place, ...] = ()
    is_begun: bool = False  # the store is told that it runs
    began_at: float = 0.0  # as the isolate says; known from when the store is told
    is_soft: bool = False  # it has been told of its soft limit
    is_ended: bool = False  # how it ended is on its way into the store
    is_lost: bool = False  # its lease belongs to another
    beats: int = 0  # reported so far
    verdict: Outcome | None = None  # what it comes to if it does not end well by itself: it is being ended from outside
    told_at: float = 0.0  # when it was told to stop
    signal: int = SIGTERM  # what follows if it does not
    is_signalled: bool = False

    @property
    def lease(self) -> Lease:
        return self.delivery.lease

    @property
    def is_async(self) -> bool:
        return self.facts is not None and self.facts.is_async

    @property
    def is_inline(self) -> bool:
        return self.facts is not None and not self.facts.isolate
