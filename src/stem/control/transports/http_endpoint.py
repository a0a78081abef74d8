"""The worker's side of control over HTTP: `POST /control`, and the replies as server-sent events."""

import hmac
import logging
import re
import socket
import ssl
import time
from collections import Counter, OrderedDict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import PurePath
from threading import BoundedSemaphore, Condition, Lock, Thread, Timer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from stem.contracts.control import AnsweringSide
from stem.core.control import MAX_COMMAND_BYTES, MAX_TIMEOUT_MS, Reply, encode_reply
from stem.core.errors import ConfigError
from stem.core.loopback import is_loopback

log = logging.getLogger("stem.control")

COMMAND_PATH = "/control"
REPLY_PATH = "/control/replies/"
HEAD_SECONDS = 2.0  # for a handshake, and then for the head of a request: until then nobody knows who it is
HEAD_BYTES = 16 * 1024
DEADLINE_SECONDS = 10.0  # for the body of a request to arrive, and for each write of an answer
ALIVE_SECONDS = 1.0  # how often a stream says that it is still there
REPLY_SECONDS = 60.0
MOST_COMMANDS = 100
MOST_REPLIES = 1000
MOST_CONNECTIONS = 64
MOST_STRANGERS = 16  # connections of one peer that have not shown a token yet
LEAST_TOKEN = 16  # characters

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
        host = host.strip("[]")
        _check_guarded(host, token, tls)
        self.unauthorized_count = 0
        self._counting = Lock()
        self._token = token
        self._host = host.lower()
        self._commands = _Commands()
        self._replies = _Replies()
        try:
            self._server = _Server((host, port), self, tls, deadline_seconds)
        except OSError as error:
            raise ConfigError(
                f"Control cannot listen on {host}:{port} ({error.strerror}); choose another port."
            ) from error
        named = f"[{host}]" if ":" in host else host
        self.url = f"{'http' if tls is None else 'https'}://{named}:{self._server.server_address[1]}"
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

    def is_ours(self, hosts: list[str]) -> bool:
        """Whether a request's Host names us: by address, as localhost, or by the name that we listen on. A page that a
        browser was lured to has another name there, whatever address it resolves to."""
        if len(hosts) != 1:
            return False
        try:
            name = urlsplit(f"//{hosts[0]}").hostname or ""
        except ValueError:
            return False
        return name in ("localhost", self._host) or _is_address(name)

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


def _check_guarded(host: str, token: str | None, tls: ssl.SSLContext | None) -> None:
    if not token and (tls is None or tls.verify_mode != ssl.CERT_REQUIRED):
        raise ConfigError(
            "A control endpoint needs a token or TLS that asks for client certificates; else anybody could steer."
        )
    if token and len(token) < LEAST_TOKEN:
        raise ConfigError(
            f"A control token needs at least {LEAST_TOKEN} characters; make one with: openssl rand -hex 32"
        )
    if tls is None and not is_loopback(host):
        raise ConfigError(
            f"Control on {host} needs TLS: over plain http others could read its token. Or use 127.0.0.1."
        )


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


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
    """A thread a connection, and no more of them than there is room for; of one peer, only a few before it has shown
    who it is."""

    daemon_threads = True
    block_on_close = False

    def __init__(
        self, address: tuple[str, int], endpoint: HttpEndpoint, tls: ssl.SSLContext | None, deadline_seconds: float
    ) -> None:
        self.endpoint = endpoint
        self.deadline_seconds = deadline_seconds
        self._tls = tls
        self._room = BoundedSemaphore(MOST_CONNECTIONS)
        self._strangers: Counter[str] = Counter()
        self._counting = Lock()
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
        stranger = _Stranger(self._strangers, self._counting, client_address[0])
        if not stranger.is_let_in:
            log.warning("control.crowded: more than %d strangers from %s", MOST_STRANGERS, client_address[0])
            self.shutdown_request(request)
        elif not self._room.acquire(blocking=False):
            log.warning("control.crowded: more than %d connections; one was turned away", MOST_CONNECTIONS)
            stranger.leave()
            self.shutdown_request(request)
        else:
            Thread(target=self._serve, args=(request, client_address, stranger), daemon=True).start()

    def _serve(self, request: Any, client_address: Any, stranger: "_Stranger") -> None:
        try:
            request.settimeout(self.deadline_seconds)
            self._finish(request, client_address, stranger)
        except Exception:  # noqa: BLE001 - whatever a peer does ends its own connection only
            self.handle_error(request, client_address)
        finally:
            self.shutdown_request(request)
            stranger.leave()
            self._room.release()

    def _finish(self, request: Any, client_address: Any, stranger: "_Stranger") -> None:
        if self._tls is not None:
            request = self._tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        watchdog = _Watchdog(request)
        try:
            watchdog.allow(HEAD_SECONDS)
            if self._is_greeted(request, client_address):
                watchdog.allow(HEAD_SECONDS)
                _Handler(request, client_address, self, watchdog, stranger)
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


class _Stranger:
    """A connection that counts against its peer until it has shown who it is, or is gone."""

    def __init__(self, strangers: Counter[str], counting: Lock, address: str) -> None:
        self._strangers = strangers
        self._counting = counting
        self._address = address
        with counting:
            self.is_let_in = strangers[address] < MOST_STRANGERS
            strangers[address] += self.is_let_in

    def leave(self) -> None:
        with self._counting:
            if self.is_let_in:
                self.is_let_in = False
                self._strangers[self._address] -= 1
                self._strangers += Counter()  # drops those that are at zero


class _Watchdog:
    """Cuts the connection when what it waits for takes too long, however slowly the bytes drip in."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._timer: Timer | None = None

    def allow(self, seconds: float) -> None:
        self.cancel()
        self._timer = Timer(seconds, _cut, [self._connection])
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class _HeadTooLong(Exception):
    pass


class _Head:
    """The start of a request, line by line, and not more than a head may have."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._left = HEAD_BYTES

    def readline(self, most: int) -> bytes:
        line: bytes = self._file.readline(min(most, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise _HeadTooLong
        return line

    def close(self) -> None:
        self._file.close()


class _Handler(BaseHTTPRequestHandler):
    """One request a connection."""

    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "stem"
    sys_version = ""

    def __init__(
        self, request: Any, client_address: Any, server: _Server, watchdog: _Watchdog, stranger: _Stranger
    ) -> None:
        self._watchdog = watchdog
        self._stranger = stranger
        super().__init__(request, client_address, server)

    def handle(self) -> None:
        self._body, self.rfile = self.rfile, _Head(self.rfile)  # type: ignore[assignment]
        self.requestline, self.request_version = "", self.protocol_version
        try:
            super().handle()
        except _HeadTooLong:
            self._tell(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def do_POST(self) -> None:
        if not self._is_welcome():
            return None
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,9}", length):
            return self._tell(HTTPStatus.LENGTH_REQUIRED)
        if int(length) > MAX_COMMAND_BYTES:
            return self._tell(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        raw = self._body.read(int(length))
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
        """Decided by the head alone: of a stranger's body nothing is kept."""
        endpoint = self.server.endpoint
        if not endpoint.is_ours(self.headers.get_all("Host", [])):
            endpoint.note_stranger(self.client_address[0], "the request's Host is not ours")
            self._turn_away(HTTPStatus.BAD_REQUEST)
            return False
        if not endpoint.is_welcome(self.headers.get("Authorization")):
            endpoint.note_stranger(self.client_address[0], "the bearer token is missing or wrong")
            self._turn_away(HTTPStatus.UNAUTHORIZED)
            return False
        self._stranger.leave()
        self._watchdog.allow(self.server.deadline_seconds)
        return True

    def _turn_away(self, status: HTTPStatus) -> None:
        """Answered first, then a little is read and thrown away, for as long as a head may take: closing with bytes
        unread would reset the connection, answer and all."""
        self._tell(status)
        self.wfile.flush()
        length = self.headers.get("Content-Length", "")
        if re.fullmatch(r"[0-9]{1,9}", length):
            self._body.read(min(int(length), HEAD_BYTES))

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
