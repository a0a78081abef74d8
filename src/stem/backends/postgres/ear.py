"""A connection that listens: what is told there, and a way to rouse whoever hears it."""

import select
import socket
from contextlib import suppress

import msgspec
from psycopg.pq.abc import PGconn

from stem.backends.postgres.bell import News


class Ear:
    """For one thread at a time, but for `rouse`."""

    def __init__(self, wire: PGconn) -> None:
        self._wire = wire
        self._awake, self._waker = socket.socketpair()
        self._poller = select.poll()
        for each in (self._wire.socket, self._awake.fileno()):
            self._poller.register(each, select.POLLIN)

    def hear(self, seconds: float) -> list[News]:
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

    def _told(self) -> list[News]:
        told = []
        while (notice := self._wire.notifies()) is not None:
            told.append(_read(notice.extra))
        return told


def _read(text: bytes) -> News:
    try:
        return msgspec.json.decode(text, type=News)
    except msgspec.MsgspecError:
        return News(lost=True)  # a newer Stem's words
