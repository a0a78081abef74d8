"""The seat of a worker that waits, as far as all stores have it alike: tasks are handed to it as they are pushed.

The store keeps a list of what it has handed over. Each time that we sit down again or leave, we say what we have heard of, and
are told the rest. So nothing is left lying where a notification is lost, and nothing is taken twice.
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

SEAT_SECONDS = 5.0  # it is good for, so that a frozen worker is not handed much
SIT_SECONDS = 0.003  # until a worker that waits again sits down again: what it has just been given begins first
DEAF_SECONDS = 1.0  # what was told so long ago should have been heard
_RENEW_SECONDS = 2.0  # before a seat is over
_LATEST_SECONDS = 60.0  # after that nothing is heard of any more
_LEAVE_SECONDS = 1.0


class Handed:
    """What was handed over: heard of, or asked for; taken once. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: list[Delivery] = []
        self._heard: set[str] = set()  # since we last said so
        self._asked_for: dict[str, float] = {}  # when, of those that we had not heard of

    def __len__(self) -> int:
        """How many nobody has taken yet."""
        return len(self._waiting)

    @property
    def heard(self) -> list[str]:
        """To be told to the store."""
        with self._lock:
            return list(self._heard)

    def take(self) -> list[Delivery]:
        if not self._waiting:
            return []
        with self._lock:
            taken, self._waiting = self._waiting, []
        return taken

    def was_asked_for(self, id: str) -> bool:
        """If so it may be heard of once more."""
        with self._lock:
            if id not in self._asked_for:
                return False
            del self._asked_for[id]
            return True

    def receive(self, delivery: Delivery) -> None:
        with self._lock:
            self._heard.add(delivery.lease.id)
            self._waiting.append(delivery)

    def answered(self, said: Collection[str], unheard: Iterable[Delivery]) -> None:
        """The store was told the ones, and has told the others."""
        with self._lock:
            fresh = [each for each in unheard if each.lease.id not in self._heard]  # some were heard of meanwhile
            ids = {each.lease.id for each in fresh}
            self._waiting += fresh
            now = monotonic()
            self._asked_for = {id: at for id, at in self._asked_for.items() if now - at < _LATEST_SECONDS}
            self._asked_for |= dict.fromkeys(ids, now)
            self._heard = (self._heard - set(said)) | ids

    def forget(self) -> None:
        """Nothing more is heard from where it came."""
        with self._lock:
            self._heard, self._asked_for = set(), {}


@dataclass(slots=True)
class Seat:
    number: int
    queues: list[str]
    lease_seconds: float
    free: int  # at most
    until: float

    @classmethod
    def taken(cls, number: int, queues: list[str], lease_seconds: float, free: int) -> "Seat":
        return cls(number, queues, lease_seconds, max(0, free), monotonic() + SEAT_SECONDS)


class Standing(ABC):
    """For any thread."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._asking = Lock()  # whoever has it speaks with the server
        self._is_over = False
        self.times_left = 0
        self._seat: Seat | None = None
        self._handed = Handed()

    @property
    def has_some(self) -> bool:
        return len(self._handed) > 0

    def take(self) -> list[Delivery]:
        """What was handed over since the last time."""
        self._see_to_forks()
        return self._handed.take()

    def enter(self) -> int:
        """Somebody means to sit down. How often we have left before."""
        self._see_to_forks()
        return self.times_left

    def is_due(self, queues: list[str], room: int) -> bool:
        """There is a seat to take, to keep, to change or to leave."""
        seat = self._seat
        if seat is None or seat.free == 0:
            return room > 0 and not self._is_over
        return seat.free > room or seat.queues != queues or monotonic() > seat.until - _RENEW_SECONDS

    def leave(self, *, for_good: bool) -> list[Delivery]:
        """Not for long: whoever leaves may be about to end. If it cannot be said, the seat is nobody's soon, and what was handed
        over in vain comes back when its lease ends."""
        self._see_to_forks()
        self._is_over |= for_good
        self.times_left += 1
        end = monotonic() + _LEAVE_SECONDS
        if self._asking.acquire(timeout=_LEAVE_SECONDS):
            try:
                with suppress(StemError):
                    while (seat := self._seat) is not None and (seat.free > 0 or for_good) and monotonic() < end:
                        self._leave(seat, end - monotonic())
            finally:
                self._asking.release()
        return self.take()

    @abstractmethod
    def _leave(self, seat: Seat, seconds: float) -> None:
        """Say so to the server, within the time."""

    def _received(self, delivery: Delivery) -> None:
        self._handed.receive(delivery)
        if (seat := self._seat) is not None:
            seat.free = max(0, seat.free - 1)

    def _see_to_forks(self) -> None:
        """What our parent was handed is not ours."""
        if self._pid != os.getpid():
            self._begin()
