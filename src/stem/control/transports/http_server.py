"""An HTTP server in a thread: an event loop with starlette's apps, uvicorn's protocol, and limits on connections."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import Protocol

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from stem.control.transports.http_connection import HEAD_SECONDS, Connection, ConnectionLimits
from stem.core.errors import ConfigError
from stem.runtime.summed_log import INTERVAL_SECONDS

log = logging.getLogger("stem.control")

STOP_SECONDS = 1.0  # for streams to end when the server closes
ACCEPT_RETRY_SECONDS = 1.0  # after the system gave no connection, for want of file descriptors for instance


class ServedApp(Protocol):
    """The app of a server. All of it is called in the server's event loop."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def note_unauthorized(self, connection: Connection, reason: str) -> None:
        """A peer failed the TLS handshake."""

    def flush_logs(self) -> None:
        """Called at intervals."""

    def end_streams(self) -> None:
        """The server closes."""


@dataclass(frozen=True, slots=True)
class Probes:
    """An app that answers the paths of probes, and the socket that it was asked on so far."""

    app: ASGIApp
    listening: socket.socket


class HttpServer:
    """Listens when it is made, and serves until `close`. Raises ConfigError, naming `purpose`, if it cannot listen."""

    url: str

    def __init__(
        self,
        app: ServedApp,
        host: str,
        port: int,
        *,
        purpose: str,
        tls: ssl.SSLContext | None = None,
        listening: socket.socket | None = None,
    ) -> None:
        """`listening` is taken over from another server of the same address."""
        self._socket = listening or _listen(host, port, purpose)
        named = f"[{host}]" if ":" in host else host
        self.url = f"{'http' if tls is None else 'https'}://{named}:{self._socket.getsockname()[1]}"
        self._tls = tls
        self._app = app
        self._limits = ConnectionLimits()
        self._stopping = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name=f"{purpose.lower()}-http-server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.in_loop(self._stopping.set)
        self._thread.join(2 * STOP_SECONDS)

    def hand_over(self) -> socket.socket:
        """Close, but go on listening with the socket returned: connections made meanwhile are served by its next owner."""
        listening = self._socket.dup()
        self.close()
        return listening

    def in_loop(self, function: Callable[[], None]) -> None:
        """Call the function in the event loop, soon; not at all once the server is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        # No lifespan, no WebSockets; and the peer's address is the socket's, whatever a request says of it.
        config = Config(self._app, log_config=None, lifespan="off", ws="none", interface="asgi3", proxy_headers=False)
        config.load()
        state = ServerState()
        self._accept_with(lambda address: Connection(config, state, self._limits, address))
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), INTERVAL_SECONDS)
            self._app.flush_logs()
            self._limits.dropped_log.flush()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._app.end_streams()
        await asyncio.sleep(0)  # what has just been accepted begins its handshake, and can be cut
        await _ended(state)
        for connection in self._limits.all:
            connection.cut()
        await _ended(
            state
        )  # those that still waited for their client, which uvicorn would log as errors if they were cancelled

    def _accept_with(self, connection_from: Callable[[str], Connection]) -> None:
        if not self._stopping.is_set():
            self._loop.add_reader(self._socket, self._accept, connection_from)

    def _accept(self, connection_from: Callable[[str], Connection]) -> None:
        try:
            accepted, address = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # it has left already
        except OSError as error:
            log.warning("control.accept_failed: %s", error)
            self._loop.remove_reader(self._socket)
            self._loop.call_later(ACCEPT_RETRY_SECONDS, self._accept_with, connection_from)
            return
        accepted.setblocking(False)
        connection = connection_from(address[0])
        if self._limits.admit(connection):
            connection.handshake = self._loop.create_task(self._connect(connection, accepted))
        else:
            accepted.close()

    async def _connect(self, connection: Connection, accepted: socket.socket) -> None:
        seconds = None if self._tls is None else HEAD_SECONDS
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection, accepted, ssl=self._tls, ssl_handshake_timeout=seconds
            )
        except ssl.SSLError as error:
            self._app.note_unauthorized(connection, f"no certificate that counts here ({error.reason})")
            self._limits.release(connection)
        except OSError:  # it stalled or has left
            self._limits.release(connection)


async def _ended(state: ServerState) -> None:
    if state.tasks:
        await asyncio.wait(state.tasks, timeout=STOP_SECONDS)


def _listen(host: str, port: int, purpose: str) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"{purpose} cannot listen on {host}:{port} ({error.strerror}); choose another port."
        ) from error
    return listening
