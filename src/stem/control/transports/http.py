"""The caller's side of control over HTTP: posts a command to each worker's endpoint and reads its reply from an event stream."""

import logging
import socket
import ssl
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import PurePath
from queue import Empty, SimpleQueue
from threading import Lock, Thread

from stem.contracts.steering.control import CommandSender
from stem.contracts.steering.heartbeats import Heartbeats
from stem.control.transports.control_mail import read_replies
from stem.control.transports.http_allowed import AllowedEndpoints
from stem.control.transports.http_paths import ALIVE_SECONDS, COMMAND_PATH, REPLY_PATH
from stem.core.control import ALL, MAX_REPLY_BYTES, Command, Reply, encode_command
from stem.core.errors import StoreUnavailable

log = logging.getLogger("stem.control")

DEADLINE_SECONDS = 5.0
ENDPOINT_EXTRA = "controlUrl"  # where a worker's heartbeat says what its endpoint is

Endpoints = Callable[[], Mapping[str, str]]


class HttpTransport(CommandSender):
    """`endpoints` gives the URL of each worker that has one, and `allowed` says which of those may be sent anything.
    Sending succeeds when at least one target took the command; the others will be seen as silent."""

    name = "http"

    def __init__(
        self,
        endpoints: Endpoints,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        allowed: AllowedEndpoints | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._endpoints = endpoints
        self._allowed = allowed or AllowedEndpoints(has_authority=tls is not None)
        self._token = token
        self._tls = tls
        self._deadline_seconds = deadline_seconds
        self._exchanges: dict[str, list[_Exchange]] = {}
        self._inboxes: dict[str, SimpleQueue[Reply]] = {}
        self._changing = Lock()

    def send_command(self, command: Command) -> str:
        known = self._endpoints()
        self._send(command, known if ALL in command.targets else _chosen(known, command.targets), command.timeout_ms)
        return self.name

    def reach(self, command: Command, workers: Collection[str]) -> frozenset[str]:
        # Half of the command's time: the rest is for another transport, should one of them not take it.
        return self._send(command, _chosen(self._endpoints(), workers), command.timeout_ms / 2)

    def receive_replies(self, request_id: str, timeout_seconds: float) -> list[Reply]:
        with self._changing:
            inbox = self._inboxes.get(request_id)
        found: list[Reply] = []
        try:
            while inbox is not None:
                wait_seconds = max(0.0, timeout_seconds) if not found else 0.0
                found.append(inbox.get(block=wait_seconds > 0, timeout=wait_seconds))
        except Empty:
            pass
        return found

    def forget(self, request_id: str) -> None:
        with self._changing:
            self._inboxes.pop(request_id, None)
            exchanges = self._exchanges.pop(request_id, [])
        for exchange in exchanges:
            exchange.stop()

    def close(self) -> None:
        for request_id in list(self._exchanges):
            self.forget(request_id)

    def _send(self, command: Command, chosen: Mapping[str, str], within_ms: float) -> frozenset[str]:
        """The workers that took it. Raises StoreUnavailable if none did."""
        if not chosen:
            raise StoreUnavailable("None of the workers has an HTTP endpoint; start them with one.")
        inbox: SimpleQueue[Reply] = SimpleQueue()
        exchanges, reasons = self._open(command, chosen, inbox.put)
        with self._changing:
            self._inboxes[command.request_id], self._exchanges[command.request_id] = inbox, exchanges
        body = encode_command(command)
        for exchange in exchanges:
            exchange.start(body, self._headers())
        wait_for([each.taken for each in exchanges], timeout=min(self._deadline_seconds, within_ms / 1000))
        reasons |= {each.worker_id: failure for each in exchanges if (failure := each.failure())}
        told = [f"{worker}: {reason}" for worker, reason in reasons.items()]
        if len(reasons) == len(chosen):
            self.forget(command.request_id)
            raise StoreUnavailable(f"No worker could be reached over HTTP ({'; '.join(told[:5])}).")
        for each in told:
            log.warning("control.worker_unreached request=%s %s", command.request_id, each)
        return frozenset(chosen.keys() - reasons.keys())

    def _open(
        self, command: Command, chosen: Mapping[str, str], receive: Callable[[Reply], None]
    ) -> "tuple[list[_Exchange], dict[str, str]]":
        """An exchange with each endpoint that may be asked, and why the others may not."""
        exchanges, reasons = [], {}
        for worker, url in chosen.items():
            try:
                exchanges.append(_Exchange(self._connection(url), worker, command, receive))
            except (StoreUnavailable, HTTPException) as error:
                reasons[worker] = str(error)
        return exchanges, reasons

    def _connection(self, url: str) -> HTTPConnection:
        endpoint = self._allowed.endpoint(url)
        # A stream speaks once a second, so one deadline serves all reads.
        seconds = max(self._deadline_seconds, 3 * ALIVE_SECONDS)
        if not endpoint.is_tls:
            return HTTPConnection(endpoint.host, endpoint.port, timeout=seconds)
        context = self._tls or ssl.create_default_context()
        return HTTPSConnection(endpoint.host, endpoint.port, timeout=seconds, context=context)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}


def _chosen(known: Mapping[str, str], workers: Collection[str]) -> dict[str, str]:
    return {worker: known[worker] for worker in workers if worker in known}


def endpoints_of(heartbeats: Heartbeats) -> Endpoints:
    """The endpoints that workers announce in their heartbeats. Anybody who can write those can name any host."""

    def known() -> Mapping[str, str]:
        beats = [pulse.heartbeat for pulse in heartbeats.all()]
        told = {beat.worker_id: beat.extras.get(ENDPOINT_EXTRA) for beat in beats}
        return {worker: url for worker, url in told.items() if isinstance(url, str)}

    return known


def caller_tls(
    ca_file: PurePath | None = None, cert_file: PurePath | None = None, key_file: PurePath | None = None
) -> ssl.SSLContext:
    """Trusts that authority, or the system's; shows the certificate where an endpoint asks for one."""
    context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    if cert_file is not None:
        context.load_cert_chain(cert_file, key_file)
    return context


class _Exchange:
    """One command to one worker, in a thread of its own: the command posted, then its reply awaited."""

    def __init__(
        self, connection: HTTPConnection, worker_id: str, command: Command, receive: Callable[[Reply], None]
    ) -> None:
        self.worker_id = worker_id
        self.taken: Future[None] = Future()
        self._connection = connection
        self._command = command
        self._receive = receive
        self._is_stopped = False
        self._stream: socket.socket | None = None

    def start(self, body: bytes, headers: dict[str, str]) -> None:
        Thread(target=self._run, args=(body, headers), name="control-http-caller", daemon=True).start()

    def failure(self) -> str | None:
        if not self.taken.done():
            return "no answer in time"
        error = self.taken.exception()
        return None if error is None else str(error)

    def stop(self) -> None:
        """Wakes a thread that is reading; past the TLS layer, whose state is that thread's."""
        self._is_stopped = True
        if self._stream is not None:
            try:
                socket.socket.shutdown(self._stream, socket.SHUT_RDWR)
            except OSError:
                return  # it has ended by itself

    def _run(self, body: bytes, headers: dict[str, str]) -> None:
        try:
            self._post(body, headers)
            self.taken.set_result(None)
            self._listen(headers)
        except (OSError, HTTPException, StoreUnavailable) as error:
            if not self.taken.done():
                self.taken.set_exception(error)
            elif not self._is_stopped:
                log.warning("control.stream_lost worker=%s: %s", self.worker_id, error)
        finally:
            self._connection.close()

    def _post(self, body: bytes, headers: dict[str, str]) -> None:
        self._connection.request("POST", COMMAND_PATH, body, {**headers, "Content-Type": "application/json"})
        answer = self._connection.getresponse()
        answer.read(1000)
        self._connection.close()
        if answer.status != 202:
            raise StoreUnavailable(f"it answered {answer.status} {answer.reason}")

    def _listen(self, headers: dict[str, str]) -> None:
        """Reads events until the reply, the end of the stream, or that of the command."""
        request_id, timeout_ms = self._command.request_id, self._command.timeout_ms
        end = time.monotonic() + timeout_ms / 1000
        if self._is_stopped:
            return
        self._connection.connect()
        self._stream = self._connection.sock  # the connection lets go of it once the answer has begun
        self._connection.request("GET", f"{REPLY_PATH}{request_id}?timeoutMs={timeout_ms}", headers=headers)
        with self._connection.getresponse() as answer:
            if answer.status != 200:
                raise StoreUnavailable(f"it answered {answer.status} {answer.reason}")
            while time.monotonic() < end and not self._is_stopped:
                line = answer.readline(MAX_REPLY_BYTES + 100)
                if not line or line.startswith(b"event: end"):
                    return
                if line.startswith(b"data: "):
                    self._take(line.removeprefix(b"data: "))

    def _take(self, message: bytes) -> None:
        for reply in read_replies(self._command.request_id, [message]):
            # An endpoint speaks for its own worker and for no other.
            if reply.worker_id == self.worker_id:
                self._receive(reply)
