"""A delivery that this worker holds, from its claim to its settling."""

import time
from itertools import count
from signal import SIGTERM

from stem.contracts.limiter import Place
from stem.core.delivery import Delivery
from stem.core.outcome import Outcome
from stem.worker.manifest import TaskFacts

_numbers = count(1)


class Held:
    """`number` names it between supervisor and isolate, and is never used again.

    What most of them never become is said once, by the class: one is made for every task.
    """

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
    untouched: int = 0  # how often it was in the hands of a falling isolate and, by that one's word, not begun
    fate: Outcome | None = None  # what it has come to, while its engine clears up after it
    ran_seconds: float = 0.0  # when its fate was known

    def __init__(self, delivery: Delivery, facts: TaskFacts | None) -> None:
        self.delivery = delivery
        self.lease = delivery.lease
        self.facts = facts  # None: no task of that name; the isolate will say so
        self.number = next(_numbers)
        self.claimed_at = self.renewed_at = time.monotonic()

    @property
    def is_async(self) -> bool:
        return self.facts is not None and self.facts.is_async

    @property
    def has_engine(self) -> bool:
        return self.facts is not None and self.facts.engine is not None

    def meet(self, fate: Outcome, ran_seconds: float) -> None:
        """Its isolate has died. What it left running is ended by another one, before anybody is told."""
        self.fate, self.ran_seconds = fate, ran_seconds
        self.told_at, self.beats, self.is_soft = 0.0, 0, True
        self.claimed_at = time.monotonic()  # it waits from now on

    @property
    def is_inline(self) -> bool:
        return self.facts is not None and not self.facts.isolate
