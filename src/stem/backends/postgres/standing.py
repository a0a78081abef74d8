"""The seat of a worker that waits at Postgres: it belongs to the connection over which the worker listens."""

import time
from dataclasses import dataclass
from time import monotonic

from stem.backends.postgres.bell import NOTIFY
from stem.backends.postgres.columns import array
from stem.backends.postgres.ear import TRIAL, Ear
from stem.backends.postgres.space import Space
from stem.backends.standing import DEAF_SECONDS, SEAT_SECONDS, Seat, Standing
from stem.core.delivery import Delivery, Lease

_BUSY_SECONDS, _CROWDED_SECONDS = 0.25, 5.0  # until we try again
_LEAVE_AGAIN_SECONDS = 0.02
_LATE_SECONDS = 1.0  # of what is heard so late the lease may be all but over


@dataclass(frozen=True, slots=True)
class Answer:
    is_ready: bool
    due: str | None  # seconds
    is_busy: bool  # the seat is as it was
    oldest_seconds: float  # of what we had not heard of


class PostgresStanding(Standing):
    def __init__(self, space: Space) -> None:
        self._space = space
        self._listener = space.listeners.work
        super().__init__()

    def _begin(self) -> None:
        super()._begin()
        self._not_before = 0.0
        self._is_late = False

    def enter(self) -> int:
        self._listener.receive = self._receive
        return super().enter()

    def is_due(self, queues: list[str], room: int) -> bool:
        seat, number = self._seat, self._number()
        if monotonic() < self._not_before:
            return False
        if seat is None:
            return room > 0 and (number is not None or self._untried() is not None)
        return seat.number != number or self._is_late or super().is_due(queues, room)

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
                self._handed.forget()
            if (ear := self._untried()) is not None:
                ear.tried_at = monotonic()
                self._space.link.rows(NOTIFY, ([ear.channel], [TRIAL]))
            room = max(0, room - len(self._handed))
            answer = self._say(number or 0, queues, 0 if number is None else room, lease_seconds)
            if answer.oldest_seconds > DEAF_SECONDS and not was_late:
                self._listener.renew()
            return answer.is_ready, answer.due

    def _leave(self, seat: Seat, seconds: float) -> None:
        answer = self._say(seat.number, seat.queues, 0, seat.lease_seconds, timeout_seconds=seconds)
        self._listener.rouse()
        if answer.is_busy:
            time.sleep(_LEAVE_AGAIN_SECONDS)  # a push has it

    def _say(
        self, number: int, queues: list[str], room: int, lease_seconds: float, timeout_seconds: float | None = None
    ) -> Answer:
        """With no room it is left."""
        heard = self._handed.heard
        said = (str(number), array(queues), str(room), str(lease_seconds), str(SEAT_SECONDS), array(heard))
        *found, (_, now, _, _, is_ready, refusal, due) = self._space.quick(
            "stand", *said, timeout_seconds=timeout_seconds
        )
        unheard = [
            Delivery(Lease(id, int(fence)), name, queue, int(attempt), int(deaths), body.encode())
            for id, fence, name, queue, attempt, deaths, body in found
        ]
        if refusal != "0":
            self._not_before = monotonic() + (_BUSY_SECONDS if refusal == "1" else _CROWDED_SECONDS)
        if refusal != "1":
            self._handed.answered(heard, unheard)
            self._is_late = False
            is_seated = room > 0 and refusal == "0"
            self._seat = Seat.taken(number, queues, lease_seconds, room - len(found)) if is_seated else None
        oldest = max([(int(now) - each.lease.fence) / 1e6 for each in unheard], default=0.0)
        return Answer(is_ready == "1", due, refusal == "1", oldest)

    def _receive(self, handed: Delivery, late_seconds: float) -> bool:
        """Called by whoever hears. False: it was known, or is to be asked for, because its lease may be all but over."""
        if self._handed.was_asked_for(handed.lease.id):
            return False
        if (seat := self._seat) is not None and late_seconds > min(_LATE_SECONDS, seat.lease_seconds / 4):
            self._is_late = True
            return False
        self._received(handed)
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
