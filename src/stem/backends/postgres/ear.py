"""A connection that listens: what is told there, what is handed over there, and a way to rouse whoever hears it."""

import secrets
import select
import socket
from contextlib import suppress
from time import monotonic
from typing import Self

import msgspec
from psycopg.pq.abc import PGconn

from stem.backends.postgres.bell import News
from stem.backends.postgres.exchange import Conversation, Statement
from stem.backends.postgres.statements import identifier
from stem.core.delivery import Delivery, Lease

Heard = News | Delivery

TRIAL = "are you there"
_TRIAL = TRIAL.encode()
_TRIAL_SECONDS = 1.0
_HEAD = msgspec.json.Decoder(tuple[str, int, str, str])
_LOCK = b"SELECT pg_advisory_lock($1)"


class Ear:
    """For one thread at a time, but for `rouse`."""

    def __init__(self, wire: PGconn, seat: int | None = None, channel: str = "") -> None:
        self._wire = wire
        self.seat = seat  # its number, if tasks may be handed over here
        self.channel = channel  # of the seat
        self.tried_at: float | None = None
        self.has_heard = False  # something on that channel, so it can
        self._awake, self._waker = socket.socketpair()
        self._poller = select.poll()
        for each in (self._wire.socket, self._awake.fileno()):
            self._poller.register(each, select.POLLIN)

    @classmethod
    def seated(cls, wire: PGconn, channel: str, seconds: float) -> Self:
        """The lock on its number says that it is there, as long as it is. Raises the driver's errors."""
        number = secrets.randbits(62)
        own = f"{channel}_{number}"
        listening = Statement(f"LISTEN {identifier(own)}".encode(), ())
        Conversation(wire, "utf-8").hold(monotonic() + seconds, Statement(_LOCK, (str(number),)), listening)
        return cls(wire, number, own)

    def hear(self, seconds: float) -> list[Heard]:
        """What was told since the last time; if nothing was, the first that is told within the time, or nothing if it is
        up or somebody rouses us. Raises the driver's errors."""
        if told := self._told():
            return told
        for number, _ in self._poller.poll(seconds * 1000):
            if number == self._awake.fileno():
                self._awake.recv(4096)
            else:
                self._wire.consume_input()
        return self._told()

    def rouse(self) -> None:
        with suppress(OSError):  # full: it is awake already; closed: nobody hears
            self._waker.send(b"!", socket.MSG_DONTWAIT)

    def close(self) -> None:
        """The connection is its maker's."""
        self._awake.close()
        self._waker.close()

    @property
    def is_deaf(self) -> bool:
        """It was tried out, and heard nothing."""
        return self.tried_at is not None and not self.has_heard and monotonic() - self.tried_at > _TRIAL_SECONDS

    def _told(self) -> list[Heard]:
        told = []
        while (notice := self._wire.notifies()) is not None:
            if notice.extra == _TRIAL:
                self.has_heard = True
            else:
                told.append(_read(notice.extra))
        return told


def _read(text: bytes) -> Heard:
    try:
        if text.startswith(b"["):
            head, _, body = text.partition(b"\n")
            task_id, fence, name, queue = _HEAD.decode(head)
            return Delivery(Lease(task_id, fence), name, queue, 0, 0, body)
        return msgspec.json.decode(text, type=News)
    except msgspec.MsgspecError:
        return News(lost=True)  # a newer Stem's words
