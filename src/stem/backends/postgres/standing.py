"""The seat of a worker that waits: tasks are handed to it as they are pushed; what it does not hear of it asks for."""

import os
import threading
from dataclasses import dataclass
from time import monotonic

from stem.backends.postgres.columns import array
from stem.backends.postgres.space import Space
from stem.core.delivery import Delivery, Lease
from stem.core.errors import StoreUnavailable

_SEAT_SECONDS = 5.0  # it is good for, so that a frozen worker is not handed much
_RENEW_SECONDS = 2.0  # before that ends
_LEAVE_SECONDS = 1.0


@dataclass(slots=True)
class Seat:
    number: int
    queues: list[str]
    free: int  # at most
    until: float


class Standing:
    """The server keeps count of what it hands to a seat; each time that we sit down again or leave, we say what we have heard
    of, and are told the rest. So nothing is left lying where a notification is lost. For any thread."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._listener = space.listeners.work
        self._listener.receive = self._receive
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._asking = threading.Lock()  # whoever has it speaks with the server
        self._lock = threading.Lock()
        self._is_over = False
        self.times_left = 0
        self._seat: Seat | None = None
        self._handed: list[Delivery] = []
        self._heard: set[str] = set()  # since we last said so
        self._asked_for: set[str] = set()  # before their notification came

    @property
    def has_some(self) -> bool:
        return bool(self._handed)

    def take(self) -> list[Delivery]:
        """What was handed over since the last time."""
        self._see_to_forks()
        if not self._handed:
            return []
        with self._lock:
            handed, self._handed = self._handed, []
        return handed

    def is_due(self, queues: list[str], room: int) -> bool:
        """There is a seat to take, to keep, to change or to leave."""
        self._see_to_forks()
        seat, number = self._seat, self._number()
        if seat is None:
            return number is not None and room > 0
        if seat.number != number:
            return True
        if seat.free == 0:
            return room > 0
        return seat.free > room or seat.queues != queues or monotonic() > seat.until - _RENEW_SECONDS

    def sit(self, queues: list[str], room: int, lease_seconds: float, times_left: int) -> tuple[bool, str | None]:
        """Is there something to claim, and in how many seconds is the next delayed task due? What was handed over and not
        heard of is there to be taken, too. Nothing is done if we were told to leave meanwhile."""
        with self._asking:
            if self.times_left != times_left:
                return True, None
            seat, number = self._seat, self._number()
            if seat is not None and seat.number != number:  # the connection is gone, and with it what was said there
                self._say(seat.number, [], 0, 0.0)
                self._heard, self._asked_for = set(), set()
            return self._say(number or 0, queues, 0 if number is None else room, lease_seconds)

    def leave(self, *, for_good: bool) -> list[Delivery]:
        """Not for long: whoever leaves may be about to end, and what he is handed in vain comes back when its lease ends."""
        self._see_to_forks()
        self._is_over |= for_good
        self.times_left += 1
        if not self._asking.acquire(timeout=_LEAVE_SECONDS):
            raise StoreUnavailable(f"Postgres at {self._space.link.address.name} does not answer; check that it runs.")
        try:
            if self._seat is not None and (self._seat.free > 0 or for_good):
                self._say(self._seat.number, [], 0, 0.0, timeout_seconds=_LEAVE_SECONDS)
                self._listener.rouse()
        finally:
            self._asking.release()
        return self.take()

    def _say(
        self, number: int, queues: list[str], room: int, lease_seconds: float, timeout_seconds: float | None = None
    ) -> tuple[bool, str | None]:
        """With no room it is left."""
        heard, until = list(self._heard), monotonic() + _SEAT_SECONDS
        said = (str(number), array(queues), str(room), str(lease_seconds), str(_SEAT_SECONDS), array(heard))
        rows = self._space.quick("stand", *said, timeout_seconds=timeout_seconds)
        with self._lock:
            for id, fence, name, queue, attempt, deaths, body in rows[:-1]:
                if id not in self._heard:  # meanwhile
                    lease = Lease(id, int(fence))
                    self._handed.append(Delivery(lease, name, queue, int(attempt), int(deaths), body.encode()))
                    self._asked_for.add(id)
            self._heard.difference_update(heard)
            self._seat = Seat(number, queues, room, until) if room > 0 else None
        *_, is_ready, _, due = rows[-1]
        return is_ready == "1", due

    def _receive(self, handed: Delivery) -> bool:
        """Called by whoever hears."""
        with self._lock:
            if handed.lease.id in self._asked_for:
                self._asked_for.discard(handed.lease.id)
                return False
            self._heard.add(handed.lease.id)
            self._handed.append(handed)
            if self._seat is not None:
                self._seat.free = max(0, self._seat.free - 1)
            return True

    def _number(self) -> int | None:
        return None if self._is_over else self._listener.seat

    def _see_to_forks(self) -> None:
        """What our parent was handed is not ours."""
        if self._pid != os.getpid():
            self._begin()
