"""One LISTEN connection: receives notifications and handed-over tasks; `wake` interrupts a receive from another thread."""

import secrets
import select
import socket
from contextlib import suppress
from time import monotonic
from typing import Self

import msgspec
from psycopg.pq.abc import PGconn

from stem.backends.postgres.connection.pq_exec import PqExecutor, Statement
from stem.backends.postgres.notify.notifier import Notification
from stem.backends.postgres.statements import identifier
from stem.core.delivery import Delivery, Lease

Received = Notification | Delivery

TEST = "are you there"  # sent to a connection before tasks are handed over to it: some poolers deliver nothing
_TEST = TEST.encode()
_TEST_SECONDS = 1.0
_HEAD = msgspec.json.Decoder(tuple[str, int, str, str])
_LOCK = b"SELECT pg_advisory_lock($1)"


class ListenConnection:
    """To be used by one thread at a time, except for `wake`."""

    def __init__(self, wire: PGconn, number: int | None = None, channel: str = "") -> None:
        self._wire = wire
        self.number = number  # of the registration for handoff; None: none is allowed here
        self.channel = channel  # on which tasks are handed over
        self.tested_at: float | None = None
        self.is_tested = False  # the test message arrived
        self._awake, self._waker = socket.socketpair()
        self._poller = select.poll()
        for each in (self._wire.socket, self._awake.fileno()):
            self._poller.register(each, select.POLLIN)

    @classmethod
    def for_handoff(cls, wire: PGconn, channel: str, seconds: float) -> Self:
        """LISTEN to a channel of its own. An advisory lock on its number shows pushers that the connection is alive. Raises the
        driver's errors."""
        number = secrets.randbits(62)
        own = f"{channel}_{number}"
        listening = Statement(f"LISTEN {identifier(own)}".encode(), ())
        PqExecutor(wire, "utf-8").execute(monotonic() + seconds, Statement(_LOCK, (str(number),)), listening)
        return cls(wire, number, own)

    def receive(self, seconds: float) -> list[Received]:
        """Return what has arrived since the last call; if nothing has, wait for it until the time is up or `wake` is called.
        Raises the driver's errors."""
        if arrived := self._arrived():
            return arrived
        for number, _ in self._poller.poll(seconds * 1000):
            if number == self._awake.fileno():
                self._awake.recv(4096)
            else:
                self._wire.consume_input()
        return self._arrived()

    def wake(self) -> None:
        with suppress(OSError):  # full: it is awake already; closed: nobody waits
            self._waker.send(b"!", socket.MSG_DONTWAIT)

    def close(self) -> None:
        """Leave the database connection itself to whoever opened it."""
        self._awake.close()
        self._waker.close()

    @property
    def is_deaf(self) -> bool:
        """The test message was sent and did not arrive."""
        return self.tested_at is not None and not self.is_tested and monotonic() - self.tested_at > _TEST_SECONDS

    def _arrived(self) -> list[Received]:
        arrived: list[Received] = []
        while (notice := self._wire.notifies()) is not None:
            if notice.extra == _TEST:
                self.is_tested = True
            else:
                arrived.append(_decoded(notice.extra))
        return arrived


def _decoded(text: bytes) -> Received:
    try:
        if text.startswith(b"["):
            head, _, body = text.partition(b"\n")
            task_id, fence, name, queue = _HEAD.decode(head)
            return Delivery(Lease(task_id, fence), name, queue, 0, 0, body)
        return msgspec.json.decode(text, type=Notification)
    except msgspec.MsgspecError:
        return Notification(lost=True)  # of a newer Stem
