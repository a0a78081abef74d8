"""Connections to the control endpoint: uvicorn's HTTP/1.1 protocol with limits that hold before anybody is authenticated."""

import asyncio
import logging
from ipaddress import IPv6Address, ip_address

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from stem.core.text.loopback import is_loopback
from stem.runtime.summed_log import SummedLog

log = logging.getLogger("stem.control")
# uvicorn warns of every malformed request; anybody can send those.
_uvicorn_log = logging.getLogger("stem.control.http")
_uvicorn_log.setLevel(logging.ERROR)

HEAD_SECONDS = 2.0  # for the TLS handshake, and again for the head of the request
HEAD_BYTES = 16 * 1024
MAX_CONNECTIONS = 64
MAX_UNAUTHENTICATED = 32  # the rest is kept for those that have shown a token
MAX_UNAUTHENTICATED_PER_PEER = 16


class ConnectionLimits:
    """Decides which connections stay open when there are too many. The oldest one that has not authenticated gives way:
    an operator sends a token at once, so nobody can lock operators out by holding connections open."""

    def __init__(self) -> None:
        self.dropped_log = SummedLog(log)
        self._authenticated: set[Connection] = set()
        self._unauthenticated: dict[Connection, None] = {}  # oldest first

    def admit(self, connection: "Connection") -> bool:
        """Makes room if need be. False: every connection there may be is authenticated."""
        of_peer = [each for each in self._unauthenticated if each.peer == connection.peer]
        if len(of_peer) >= MAX_UNAUTHENTICATED_PER_PEER:
            self._drop(of_peer[0], f"{len(of_peer)} unauthenticated connections from {connection.peer}")
        elif len(self._unauthenticated) >= MAX_UNAUTHENTICATED:
            self._drop(next(iter(self._unauthenticated)), f"{MAX_UNAUTHENTICATED} unauthenticated connections")
        elif len(self.all) >= MAX_CONNECTIONS:
            oldest = next(iter(self._unauthenticated), None)
            self._drop(oldest or connection, f"{MAX_CONNECTIONS} connections")
            if oldest is None:
                return False
        self._unauthenticated[connection] = None
        return True

    def authenticate(self, connection: "Connection") -> None:
        if connection in self._unauthenticated:
            del self._unauthenticated[connection]
            self._authenticated.add(connection)

    def release(self, connection: "Connection") -> None:
        self._unauthenticated.pop(connection, None)
        self._authenticated.discard(connection)

    @property
    def all(self) -> list["Connection"]:
        return [*self._unauthenticated, *self._authenticated]

    def _drop(self, connection: "Connection", reason: str) -> None:
        self.dropped_log.warning(f"control.connection_dropped peer={connection.peer}: there are {reason}")
        self.release(connection)
        connection.cut()


class Connection(H11Protocol):
    """One connection, which carries one request. It is cut when a deadline passes: uvicorn has none for the head."""

    def __init__(self, config: Config, state: ServerState, limits: ConnectionLimits, address: str) -> None:
        super().__init__(config, state, {"connection": self})  # the app finds it in the request's state
        self.logger, self.access_log = _uvicorn_log, False
        self.address = address
        self.peer = peer_of(address)
        self.handshake: asyncio.Task[None] | None = None  # which ends when the connection is made
        self._limits = limits
        self._head_bytes_left = HEAD_BYTES
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.allow(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        """h11 measures a head only while it is incomplete, so no more than a head's worth is given to it."""
        if self.cycle is None:
            head, data = data[: self._head_bytes_left], data[self._head_bytes_left :]
            self._head_bytes_left -= len(head)
            super().data_received(head)
            if self.cycle is None and not self._head_bytes_left and not self.transport.is_closing():
                self.send_400_response("The head of the request is too long.")
        if data and self.cycle is not None:
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Answer once: what is malformed after the head comes while the app answers, and it is told that the client left.
        A second answer would be an error of ours with a traceback in the log, for anybody to cause."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._limits.release(self)
        super().connection_lost(exc)

    def authenticate(self) -> None:
        self._limits.authenticate(self)

    def allow(self, seconds: float) -> None:
        """Cut the connection after this long, however slowly the bytes drip in."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self.cut)

    def cut(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()


def peer_of(address: str) -> str:
    """Who counts as one peer: this machine, an IPv4 address, or the /64 that an IPv6 host can choose addresses from."""
    if is_loopback(address):
        return "loopback"
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(ip, IPv6Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return peer_of(str(ip.ipv4_mapped))
    return f"{IPv6Address(int(ip) >> 64 << 64)}/64"
