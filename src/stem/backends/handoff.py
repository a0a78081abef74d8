"""Hand a pushed task directly to a waiting worker, without a claim in between. Shared by Redis and Postgres.

    worker: register(queues, free slots) ──► store keeps the registration for a few seconds
    push:   finds a registration with a free slot ──► leases the task to it and publishes it on the worker's channel
    worker: receives it while it waits, or fetches it with the next register or withdraw

The store lists what it has handed to a worker until the worker acknowledges it, with its next register or withdraw. So a lost
notification delays a task and loses none, and no task is taken twice.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from time import monotonic

from stem.core.delivery import Delivery
from stem.core.errors import StemError

REGISTRATION_SECONDS = 5.0  # short, so that a frozen worker is not handed much
REGISTER_AGAIN_SECONDS = 0.003  # after a task was handed over: it begins before the worker registers for the next one
UNHEARD_SECONDS = 1.0  # a notification that takes longer than this was lost
NEVER_SECONDS = 3600.0  # as good as
_RENEW_SECONDS = 2.0  # before a registration ends
_LATEST_SECONDS = 60.0  # no notification arrives later than this
_WITHDRAW_SECONDS = 1.0


class HandedOver:
    """The deliveries handed to this process, each returned by `take` once. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: list[Delivery] = []
        self._received: set[str] = set()  # ids that the store does not yet know to be received
        self._fetched: dict[str, float] = {}  # ids that came with an answer instead of a notification, and when

    def __len__(self) -> int:
        """The number of deliveries that nobody has taken yet."""
        return len(self._waiting)

    @property
    def received(self) -> list[str]:
        """The ids to acknowledge to the store."""
        with self._lock:
            return list(self._received)

    def take(self) -> list[Delivery]:
        if not self._waiting:
            return []
        with self._lock:
            taken, self._waiting = self._waiting, []
        return taken

    def was_fetched(self, id: str) -> bool:
        """Whether a notification comes after its task was already fetched. True once per task."""
        with self._lock:
            return self._fetched.pop(id, None) is not None

    def receive(self, delivery: Delivery) -> None:
        with self._lock:
            self._received.add(delivery.lease.id)
            self._waiting.append(delivery)

    def reconcile(self, acknowledged: Collection[str], unheard: Iterable[Delivery]) -> None:
        """Apply an answer of the store: it knows of the acknowledged ids, and sent the deliveries it believes unheard."""
        with self._lock:
            fresh = [each for each in unheard if each.lease.id not in self._received]  # some arrived meanwhile
            ids = {each.lease.id for each in fresh}
            self._waiting += fresh
            now = monotonic()
            self._fetched = {id: at for id, at in self._fetched.items() if now - at < _LATEST_SECONDS}
            self._fetched |= dict.fromkeys(ids, now)
            self._received = (self._received - set(acknowledged)) | ids

    def forget(self) -> None:
        """Drop all bookkeeping of a channel from which nothing more arrives."""
        with self._lock:
            self._received, self._fetched = set(), {}


@dataclass(slots=True)
class Registration:
    """What the store knows of this waiting worker."""

    number: int
    queues: list[str]
    lease_seconds: float
    free: int  # an upper bound: a push may have used a slot meanwhile
    until: float

    @classmethod
    def from_now(cls, number: int, queues: list[str], lease_seconds: float, free: int) -> "Registration":
        return cls(number, queues, lease_seconds, max(0, free), monotonic() + REGISTRATION_SECONDS)


@dataclass(frozen=True, slots=True)
class EmptyClaim:
    """A claim found less than its limit. A wait that follows need not look first if nothing was notified since."""

    queues: list[str]
    position: object  # of the notifications, before the claim; None: unknown
    due_at: float  # when the next delayed task is due, by the machine's monotonic clock


class Handoff(ABC):
    """This process as a waiting worker. Safe to share between threads; a forked child starts with nothing."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._calling = Lock()  # one call to the store at a time
        self._is_stopped = False
        self.withdrawals = 0
        self._registration: Registration | None = None
        self._handed = HandedOver()

    @property
    def has_deliveries(self) -> bool:
        return len(self._handed) > 0

    def take(self) -> list[Delivery]:
        """Return the deliveries that were handed over since the last call."""
        self._reset_after_fork()
        return self._handed.take()

    def begin_wait(self) -> int:
        """Return the number of withdrawals so far. A wait that finds another number later has been called off."""
        self._reset_after_fork()
        return self.withdrawals

    def is_due(self, queues: list[str], room: int) -> bool:
        """Whether the worker should register, renew its registration, change it or withdraw."""
        known = self._registration
        if known is None or known.free == 0:
            return room > 0 and not self._is_stopped
        return known.free > room or known.queues != queues or monotonic() > known.until - _RENEW_SECONDS

    def withdraw(self, *, for_good: bool) -> list[Delivery]:
        """Take the registration back and return what was handed over.

        Gives up after a second, because the process may be about to end: the registration then expires by itself, and what was
        handed over unheard comes back when its lease ends.
        """
        self._reset_after_fork()
        self._is_stopped |= for_good
        self.withdrawals += 1
        end = monotonic() + _WITHDRAW_SECONDS
        if self._calling.acquire(timeout=_WITHDRAW_SECONDS):
            try:
                with suppress(StemError):
                    while (
                        (known := self._registration) is not None and (known.free > 0 or for_good) and monotonic() < end
                    ):
                        self._withdraw(known, end - monotonic())
            finally:
                self._calling.release()
        return self.take()

    @abstractmethod
    def _withdraw(self, registration: Registration, seconds: float) -> None:
        """Tell the store, within the time given."""

    def _receive(self, delivery: Delivery) -> None:
        self._handed.receive(delivery)
        if (known := self._registration) is not None:
            known.free = max(0, known.free - 1)

    def _reset_after_fork(self) -> None:
        """What the parent was handed belongs to the parent."""
        if self._pid != os.getpid():
            self._reset()
