"""The seat of a worker that waits at Redis. Whoever hands something over is told by the server if it was heard."""

import secrets

import msgspec

from stem.backends.redis import shapes
from stem.backends.redis.claimed import read_claimed
from stem.backends.redis.space import Space, microseconds
from stem.backends.standing import DEAF_SECONDS, SEAT_SECONDS, Seat, Standing


class RedisStanding(Standing):
    def __init__(self, space: Space) -> None:
        self._space = space
        super().__init__()

    def _begin(self) -> None:
        super()._begin()
        self._number = secrets.randbits(48)

    @property
    def channel(self) -> str:
        return f"seat:{self._number}"

    def sit(self, queues: list[str], room: int, lease_seconds: float, times_left: int, within: float) -> int:
        """In how many microseconds a claim may find something; 0 for now, -1 if nothing waits. What was handed over and not heard
        of is there to be taken. Nothing is done if we were told to leave meanwhile."""
        with self._asking:
            if self.times_left != times_left:
                return 0
            room = 0 if self._is_over else max(0, room - len(self._handed))
            due, oldest = self._say(queues, room, lease_seconds, within)
            if oldest > microseconds(DEAF_SECONDS):
                self._space.ears.doubt()
            return 0 if self.has_some else due

    def hear(self, packed: bytes) -> bool:
        """False: it was asked for before."""
        try:
            handed = shapes.delivery(packed, iter(()))
        except (msgspec.MsgspecError, ValueError):  # anybody can publish anything; what was handed over is asked for
            return False
        if self._handed.was_asked_for(handed.lease.id):
            return False
        self._received(handed)
        return True

    def _leave(self, seat: Seat, seconds: float) -> None:
        self._say(seat.queues, 0, seat.lease_seconds, seconds)

    def _say(self, queues: list[str], room: int, lease_seconds: float, within: float) -> tuple[int, int]:
        heard = self._handed.heard
        said = {
            "number": str(self._number),
            "queues": queues,
            "room": room,
            "lease": microseconds(lease_seconds),
            "life": microseconds(SEAT_SECONDS),
            "heard": heard,
        }
        due, packed, oldest = self._space.run("stand", said, within=within)
        self._handed.answered(heard, read_claimed(self._space, packed, iter(())))
        self._seat = Seat.taken(self._number, queues, lease_seconds, room - len(packed)) if room > 0 else None
        return due, oldest
