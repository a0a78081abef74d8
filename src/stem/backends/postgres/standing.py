"""The seat of a worker that waits: tasks are handed to it as they are pushed; what it does not hear of it asks for."""

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from stem.backends.postgres.bell import NOTIFY
from stem.backends.postgres.columns import array
from stem.backends.postgres.ear import TRIAL, Ear
from stem.backends.postgres.space import Space
from stem.core.delivery import Delivery, Lease
from stem.core.errors import StemError

_SEAT_SECONDS = 5.0  # it is good for, so that a frozen worker is not handed much
_RENEW_SECONDS = 2.0  # before that ends
_BUSY_SECONDS, _CROWDED_SECONDS = 0.25, 5.0  # until we try again
_LEAVE_SECONDS = 1.0
_LEAVE_AGAIN_SECONDS = 0.02
_DEAF_SECONDS = 1.0  # what was told so long ago should have been heard
_LATE_SECONDS = 1.0  # of what is heard so late the lease may be all but over


@dataclass(slots=True)
class Seat:
    number: int
    queues: list[str]
    lease_seconds: float
    free: int  # at most
    until: float


@dataclass(frozen=True, slots=True)
class Answer:
    is_ready: bool
    due: str | None  # seconds
    is_busy: bool  # the seat is as it was
    oldest_seconds: float  # of what we had not heard of


class Standing:
    """The server keeps count of what it hands to a seat; each time that we sit down again or leave, we say what we have heard
    of, and are told the rest. So nothing is left lying where a notification is lost. For any thread."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._listener = space.listeners.work
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._asking = threading.Lock()  # whoever has it speaks with the server
        self._lock = threading.Lock()
        self._is_over = False
        self.times_left = 0
        self._seat: Seat | None = None
        self._not_before = 0.0
        self._is_late = False
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

    def enter(self) -> int:
        """Somebody means to sit down. How often we have left before."""
        self._see_to_forks()
        self._listener.receive = self._receive
        return self.times_left

    def is_due(self, queues: list[str], room: int) -> bool:
        """There is a seat to take, to keep, to change or to leave."""
        self._see_to_forks()
        seat, number = self._seat, self._number()
        if monotonic() < self._not_before:
            return False
        if seat is None:
            return room > 0 and (number is not None or self._untried() is not None)
        if seat.number != number or self._is_late:
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
            seat, number, was_late = self._seat, self._number(), self._is_late
            if seat is not None and seat.number != number:  # the connection is gone, and with it what was said there
                answer = self._say(seat.number, seat.queues, 0, seat.lease_seconds)
                if answer.is_busy:
                    return answer.is_ready, answer.due
                self._heard, self._asked_for = set(), set()
            if (ear := self._untried()) is not None:
                ear.tried_at = monotonic()
                self._space.link.rows(NOTIFY, ([ear.channel], [TRIAL]))
            room = max(0, room - len(self._handed))
            answer = self._say(number or 0, queues, 0 if number is None else room, lease_seconds)
            if answer.oldest_seconds > _DEAF_SECONDS and not was_late:
                self._listener.renew()
            return answer.is_ready, answer.due

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
                    while self._sits(for_good=for_good) and (left := end - monotonic()) > 0:
                        self._leave(left)
                        self._listener.rouse()
            finally:
                self._asking.release()
        return self.take()

    def _sits(self, *, for_good: bool) -> bool:
        return self._seat is not None and (self._seat.free > 0 or for_good)

    def _leave(self, seconds: float) -> None:
        if (seat := self._seat) is not None:
            answer = self._say(seat.number, seat.queues, 0, seat.lease_seconds, timeout_seconds=seconds)
            if answer.is_busy:
                time.sleep(_LEAVE_AGAIN_SECONDS)  # a push has it

    def _say(
        self, number: int, queues: list[str], room: int, lease_seconds: float, timeout_seconds: float | None = None
    ) -> Answer:
        """With no room it is left."""
        heard, until = list(self._heard), monotonic() + _SEAT_SECONDS
        said = (str(number), array(queues), str(room), str(lease_seconds), str(_SEAT_SECONDS), array(heard))
        *found, (_, now, _, _, is_ready, refusal, due) = self._space.quick(
            "stand", *said, timeout_seconds=timeout_seconds
        )
        oldest = 0.0
        with self._lock:
            for id, fence, name, queue, attempt, deaths, body in found:
                if id not in self._heard:  # else it was just now
                    lease = Lease(id, int(fence))
                    self._handed.append(Delivery(lease, name, queue, int(attempt), int(deaths), body.encode()))
                    self._asked_for.add(id)
                    oldest = max(oldest, (int(now) - lease.fence) / 1e6)
            if refusal != "0":
                self._not_before = monotonic() + (_BUSY_SECONDS if refusal == "1" else _CROWDED_SECONDS)
            if refusal != "1":
                is_seated = room > 0 and refusal == "0"
                self._seat = (
                    Seat(number, queues, lease_seconds, max(0, room - len(found)), until) if is_seated else None
                )
                self._heard = self._heard.difference(heard).union(row[0] for row in found)
                self._is_late = False
        return Answer(is_ready == "1", due, refusal == "1", oldest)

    def _receive(self, handed: Delivery, late_seconds: float) -> bool:
        """Called by whoever hears. False: it was known, or is to be asked for, because its lease may be all but over."""
        with self._lock:
            seat, id = self._seat, handed.lease.id
            if id in self._asked_for:
                self._asked_for.discard(id)
                return False
            if seat is not None and late_seconds > min(_LATE_SECONDS, seat.lease_seconds / 4):
                self._is_late = True
                return False
            self._heard.add(id)
            self._handed.append(handed)
            if seat is not None:
                seat.free = max(0, seat.free - 1)
            return True

    # The connection

    def _number(self) -> int | None:
        """Of the seat of a connection over which something was handed over, if only a word to try it out."""
        ear = None if self._is_over else self._listener.ear
        return ear.seat if ear is not None and ear.has_heard else None

    def _untried(self) -> Ear | None:
        """Through some poolers nobody hears anything, so each is tried out."""
        ear = None if self._is_over else self._listener.ear
        return ear if ear is not None and ear.seat is not None and ear.tried_at is None else None

    def _see_to_forks(self) -> None:
        """What our parent was handed is not ours."""
        if self._pid != os.getpid():
            self._begin()
