"""The worker's side of control over HTTP: `POST /control`, and the replies as server-sent events.

An event loop in one thread serves all connections with starlette and uvicorn's protocol, beside the worker's own threads.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePath
from queue import Empty, Full
from threading import Thread

from uvicorn.config import Config
from uvicorn.server import ServerState

from stem.contracts.steering.control import CommandReceiver
from stem.control.transports.http_app import ControlApp
from stem.control.transports.http_connection import HEAD_SECONDS, Connection, ConnectionLimits
from stem.core.control import Reply, encode_reply
from stem.core.errors import ConfigError
from stem.core.text.loopback import is_loopback
from stem.runtime.summed_log import INTERVAL_SECONDS

log = logging.getLogger("stem.control")

DEADLINE_SECONDS = 10.0  # for the body of a request to arrive, and for each write of a response
STOP_SECONDS = 1.0  # for streams to end when the endpoint closes
ACCEPT_RETRY_SECONDS = 1.0  # after the system gave no connection, for want of file descriptors for instance
MIN_TOKEN_LENGTH = 16


class HttpEndpoint(CommandReceiver):
    """Listens from the start, on loopback unless told otherwise. Asks for a bearer token, or for a client certificate by
    its TLS context, or both; with neither it is a ConfigError."""

    name = "http"
    url: str

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        host = host.strip("[]")
        _check_guarded(host, token, tls)
        self._socket = _listen(host, port)
        named = f"[{host}]" if ":" in host else host
        self.url = f"{'http' if tls is None else 'https'}://{named}:{self._socket.getsockname()[1]}"
        self._tls = tls
        self._app = ControlApp(host=host, token=token, deadline_seconds=deadline_seconds)
        self._limits = ConnectionLimits()
        self._stopping = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name="control-http-server", daemon=True)
        self._thread.start()

    @property
    def unauthorized_count(self) -> int:
        return self._app.unauthorized_count

    def receive_commands(self, timeout_seconds: float) -> list[bytes]:
        commands = self._app.commands
        found: list[bytes | None] = []
        with suppress(Empty):
            found.append(commands.get(timeout=timeout_seconds) if timeout_seconds > 0 else commands.get_nowait())
            while True:
                found.append(commands.get_nowait())
        return [raw for raw in found if raw is not None]

    def send_reply(self, reply: Reply) -> None:
        raw = encode_reply(reply)
        self._in_loop(lambda: self._app.replies.put(reply.request_id, raw))

    def close(self) -> None:
        with suppress(Full):
            self._app.commands.put_nowait(None)
        self._in_loop(self._stopping.set)
        self._thread.join(2 * STOP_SECONDS)

    def _in_loop(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the endpoint is closed, and nobody is connected to it
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
            self._app.unauthorized_log.flush()
            self._limits.dropped_log.flush()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._app.replies.close()  # ends the streams
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


def _check_guarded(host: str, token: str | None, tls: ssl.SSLContext | None) -> None:
    if not token and (tls is None or tls.verify_mode != ssl.CERT_REQUIRED):
        raise ConfigError(
            "A control endpoint needs a token or TLS that asks for client certificates; else anybody could steer."
        )
    if token and len(token) < MIN_TOKEN_LENGTH:
        raise ConfigError(
            f"A control token needs at least {MIN_TOKEN_LENGTH} characters; make one with: openssl rand -hex 32"
        )
    if tls is None and not is_loopback(host):
        raise ConfigError(
            f"Control on {host} needs TLS: over plain http others could read its token. Or use 127.0.0.1."
        )


def _listen(host: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise ConfigError(f"Control cannot listen on {host}:{port} ({error.strerror}); choose another port.") from error
    return listening


def endpoint_tls(cert_file: PurePath, key_file: PurePath, client_ca_file: PurePath | None = None) -> ssl.SSLContext:
    """With a CA file, clients must show a certificate of that authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(cert_file, key_file)
    if client_ca_file is not None:
        context.load_verify_locations(client_ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
