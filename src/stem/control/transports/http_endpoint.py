"""The worker's side of control over HTTP: `POST /control`, and the replies as server-sent events."""

import hmac
import logging
import re
import socket
import ssl
import time
from collections import OrderedDict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePath
from threading import BoundedSemaphore, Condition, Lock, Thread, Timer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from stem.contracts.control import AnsweringSide
from stem.core.control import MAX_COMMAND_BYTES, MAX_TIMEOUT_MS, Reply, encode_reply
from stem.core.errors import ConfigError

log = logging.getLogger("stem.control")

COMMAND_PATH = "/control"
REPLY_PATH = "/control/replies/"
DEADLINE_SECONDS = 10.0  # for all of a request to arrive, and for each write of an answer
ALIVE_SECONDS = 1.0  # how often a stream says that it is still there
REPLY_SECONDS = 60.0
MOST_COMMANDS = 100
MOST_REPLIES = 1000
MOST_CONNECTIONS = 64

_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:\-]{0,127}", re.ASCII)


class HttpEndpoint(AnsweringSide):
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
        if not token and (tls is None or tls.verify_mode != ssl.CERT_REQUIRED):
            raise ConfigError(
                "A control endpoint needs a token or TLS that asks for client certificates; else anybody could steer."
            )
        self.unauthorized_count = 0
        self._counting = Lock()
        self._token = token
        self._commands = _Commands()
        self._replies = _Replies()
        try:
            self._server = _Server((host, port), self, tls, deadline_seconds)
        except OSError as error:
            raise ConfigError(
                f"Control cannot listen on {host}:{port} ({error.strerror}); choose another port."
            ) from error
        if tls is None and host not in ("127.0.0.1", "::1", "localhost"):
            log.warning("control.plain host=%s: tokens travel unencrypted; give the endpoint a TLS context", host)
        self.url = f"{'http' if tls is None else 'https'}://{host}:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), name="control-http-server", daemon=True)
        self._thread.start()

    def receive_commands(self, timeout_seconds: float) -> list[bytes]:
        return self._commands.take_all(timeout_seconds)

    def send_reply(self, reply: Reply) -> None:
        self._replies.put(reply.request_id, encode_reply(reply))

    def close(self) -> None:
        self._commands.close()
        self._replies.close()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(2)

    def is_welcome(self, authorization: str | None) -> bool:
        if self._token is None:
            return True  # the TLS handshake has asked for a certificate
        return hmac.compare_digest((authorization or "").encode(), f"Bearer {self._token}".encode())

    def note_stranger(self, address: str, reason: str) -> None:
        with self._counting:
            self.unauthorized_count += 1
        log.warning("control.refused code=unauthorized from=%s: %s", address, reason)

    def take(self, raw: bytes) -> bool:
        return self._commands.put(raw)

    def await_reply(self, request_id: str, timeout_seconds: float) -> bytes | None:
        return self._replies.take(request_id, timeout_seconds)

    @property
    def is_closed(self) -> bool:
        return self._replies.is_closed


def endpoint_tls(cert_file: PurePath, key_file: PurePath, client_ca_file: PurePath | None = None) -> ssl.SSLContext:
    """With a CA file, clients must show a certificate of that authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(cert_file, key_file)
    if client_ca_file is not None:
        context.load_verify_locations(client_ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class _Commands:
    """In the order in which they came, and no more than there is room for."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._is_closed = False
        self._changed = Condition()

    def put(self, raw: bytes) -> bool:
        with self._changed:
            if len(self._waiting) >= MOST_COMMANDS:
                return False
            self._waiting.append(raw)
            self._changed.notify_all()
            return True

    def take_all(self, timeout_seconds: float) -> list[bytes]:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._waiting, timeout_seconds)
            found, self._waiting = self._waiting, []
            return found

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class _Replies:
    """Each waits a while to be fetched, once."""

    def __init__(self) -> None:
        self.is_closed = False
        self._waiting: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._changed = Condition()

    def put(self, request_id: str, reply: bytes) -> None:
        now = time.monotonic()
        with self._changed:
            while self._waiting and (
                len(self._waiting) >= MOST_REPLIES or next(iter(self._waiting.values()))[0] <= now
            ):
                self._waiting.popitem(last=False)
            self._waiting[request_id] = (now + REPLY_SECONDS, reply)
            self._changed.notify_all()

    def take(self, request_id: str, timeout_seconds: float) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self.is_closed or request_id in self._waiting, timeout_seconds)
            _, reply = self._waiting.pop(request_id, (0.0, None))
            return reply

    def close(self) -> None:
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()


class _Server(ThreadingHTTPServer):
    """A thread a connection, and no more of them than there is room for."""

    daemon_threads = True
    block_on_close = False

    def __init__(
        self, address: tuple[str, int], endpoint: HttpEndpoint, tls: ssl.SSLContext | None, deadline_seconds: float
    ) -> None:
        self.endpoint = endpoint
        self.deadline_seconds = deadline_seconds
        self._tls = tls
        self._room = BoundedSemaphore(MOST_CONNECTIONS)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, BaseHTTPRequestHandler)  # each is made in finish_request

    def server_bind(self) -> None:
        # Without HTTPServer's look-up of the host's name, which may ask a network that does not answer.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "stem", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            log.warning("control.crowded: more than %d connections; one was turned away", MOST_CONNECTIONS)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            request.settimeout(self.deadline_seconds)
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self._tls is not None:
            request = self._tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        watchdog = Timer(self.deadline_seconds, _cut, [request])
        watchdog.daemon = True
        watchdog.start()
        try:
            if self._is_greeted(request, client_address):
                _Handler(request, client_address, self, watchdog)
        finally:
            watchdog.cancel()
            request.close()

    def _is_greeted(self, request: Any, client_address: Any) -> bool:
        """Here, in the connection's own thread: a client that stalls in its handshake holds up nobody else."""
        if not isinstance(request, ssl.SSLSocket):
            return True
        try:
            request.do_handshake()
        except ssl.SSLError as error:
            self.endpoint.note_stranger(client_address[0], f"no certificate that counts here ({error.reason})")
            return False
        return True

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        log.debug("control.connection-lost", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """One request a connection."""

    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "stem"
    sys_version = ""

    def __init__(self, request: Any, client_address: Any, server: _Server, watchdog: Timer) -> None:
        self._watchdog = watchdog
        super().__init__(request, client_address, server)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,9}", length):
            return self._tell(HTTPStatus.LENGTH_REQUIRED)
        if int(length) > MAX_COMMAND_BYTES:
            return self._tell(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        # Read before anything is refused: closing with bytes unread would reset the connection, answer and all.
        raw = self.rfile.read(int(length))
        if not self._is_welcome():
            return None
        if urlsplit(self.path).path != COMMAND_PATH:
            return self._tell(HTTPStatus.NOT_FOUND)
        if len(raw) < int(length):
            return self._tell(HTTPStatus.BAD_REQUEST)
        return self._tell(HTTPStatus.ACCEPTED if self.server.endpoint.take(raw) else HTTPStatus.SERVICE_UNAVAILABLE)

    def do_GET(self) -> None:
        if not self._is_welcome():
            return None
        address = urlsplit(self.path)
        request_id = address.path.removeprefix(REPLY_PATH)
        timeout_ms = parse_qs(address.query).get("timeoutMs", ["30000"])[-1]
        if not address.path.startswith(REPLY_PATH) or not _REQUEST_ID.fullmatch(request_id):
            return self._tell(HTTPStatus.NOT_FOUND)
        if not re.fullmatch(r"[0-9]{1,9}", timeout_ms) or int(timeout_ms) > MAX_TIMEOUT_MS:
            return self._tell(HTTPStatus.BAD_REQUEST)
        self._watchdog.cancel()
        return self._stream(request_id, int(timeout_ms) / 1000)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("control.http %s", format % args)

    def _is_welcome(self) -> bool:
        if self.server.endpoint.is_welcome(self.headers.get("Authorization")):
            return True
        self.server.endpoint.note_stranger(self.client_address[0], "the bearer token is missing or wrong")
        self._tell(HTTPStatus.UNAUTHORIZED)
        return False

    def _stream(self, request_id: str, timeout_seconds: float) -> None:
        """The reply when it is there, then the end; meanwhile a sign of life, so that the other side can tell."""
        self._head(HTTPStatus.OK, {"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        end = time.monotonic() + timeout_seconds
        while (left := end - time.monotonic()) > 0 and not self.server.endpoint.is_closed:
            reply = self.server.endpoint.await_reply(request_id, min(ALIVE_SECONDS, left))
            if reply is not None:
                self.wfile.write(b"event: reply\ndata: " + reply + b"\n\n")
                break
            self.wfile.write(b": waiting\n\n")
        self.wfile.write(b"event: end\ndata: {}\n\n")

    def _tell(self, status: HTTPStatus) -> None:
        body = b'{"status": "%s"}\n' % status.phrase.encode()
        self._head(status, {"Content-Type": "application/json", "Content-Length": str(len(body))})
        self.wfile.write(body)

    def _head(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.close_connection = True
        self.send_response(status)
        for name, value in {**headers, "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()


def _cut(connection: socket.socket) -> None:
    """Past the TLS layer, whose state belongs to another thread."""
    try:
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:
        return  # it has ended by itself
