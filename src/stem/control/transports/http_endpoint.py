"""The worker's side of control over HTTP: `POST /control`, and the replies as server-sent events."""

import ssl
from contextlib import suppress
from pathlib import PurePath
from queue import Empty, Full

from stem.contracts.steering.control import CommandReceiver
from stem.control.transports.http_app import ControlApp
from stem.control.transports.http_server import HttpServer, Probes
from stem.core.control import Reply, encode_reply
from stem.core.errors import ConfigError
from stem.core.text.loopback import is_loopback

DEADLINE_SECONDS = 10.0  # for the body of a request to arrive, and for each write of a response
MIN_TOKEN_LENGTH = 16


class HttpEndpoint(CommandReceiver):
    """Listens from the start, on loopback unless told otherwise. Asks for a bearer token, or for a client certificate by
    its TLS context, or both; with neither it is a ConfigError. `probes` answers the paths of probes, without a token."""

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
        probes: Probes | None = None,
    ) -> None:
        host = host.strip("[]")
        _check_guarded(host, token, tls)
        app, listening = (None, None) if probes is None else (probes.app, probes.listening)
        self._app = ControlApp(host=host, token=token, deadline_seconds=deadline_seconds, probes=app)
        self._server = HttpServer(self._app, host, port, purpose="Control", tls=tls, listening=listening)
        self.url = self._server.url

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
        self._server.in_loop(lambda: self._app.replies.put(reply.request_id, raw))

    def close(self) -> None:
        with suppress(Full):
            self._app.commands.put_nowait(None)
        self._server.close()


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


def endpoint_tls(cert_file: PurePath, key_file: PurePath, client_ca_file: PurePath | None = None) -> ssl.SSLContext:
    """With a CA file, clients must show a certificate of that authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(cert_file, key_file)
    if client_ca_file is not None:
        context.load_verify_locations(client_ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
