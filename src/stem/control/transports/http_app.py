"""The starlette application of the control endpoint: authorise a request, take its command, stream its reply."""

import asyncio
import hmac
import logging
import re
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address
from queue import Full, Queue
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from stem.control.transports import http_paths
from stem.control.transports.http_connection import HEAD_BYTES, Connection
from stem.core.control import MAX_COMMAND_BYTES, MAX_TIMEOUT_MS
from stem.runtime.summed_log import SummedLog

REPLY_SECONDS = 60.0  # how long a reply is kept for its caller
MAX_COMMANDS = 100
MAX_REPLIES = 1000

_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:\-]{0,127}", re.ASCII)


class ControlApp:
    """Runs in the endpoint's event loop. `token` None: the TLS handshake has asked for a certificate. `commands` holds the
    bodies of accepted requests; None in it wakes their receiver."""

    def __init__(self, *, host: str, token: str | None, deadline_seconds: float, probes: ASGIApp | None = None) -> None:
        self.commands: Queue[bytes | None] = Queue(MAX_COMMANDS)
        self.replies = ReplyBox()
        self.unauthorized_count = 0
        self.unauthorized_log = SummedLog(logging.getLogger("stem.control"))
        self._host = host.lower()
        self._token = token
        self._probes = probes
        self._deadline_seconds = deadline_seconds
        self._routes = Starlette(
            routes=[
                Route(http_paths.COMMAND_PATH, self._post_command, methods=["POST"]),
                Route(http_paths.REPLY_PATH + "{request_id}", self._get_reply),
            ],
            exception_handlers={HTTPException: _on_http_exception},
        )
        self._routes.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decide by the head alone: of an unauthorised request's body nothing is kept."""
        connection: Connection = scope["state"]["connection"]
        if self._probes is not None and scope["path"] in http_paths.PROBE_PATHS:
            await self._probes(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if not is_own_host(headers.getlist("Host"), self._host):
            self.note_unauthorized(connection, "the request's Host is not ours")
            await _refuse(HTTPStatus.BAD_REQUEST, receive, send)
        elif not self._is_authorized(headers.get("Authorization", "")):
            self.note_unauthorized(connection, "the bearer token is missing or wrong")
            await _refuse(HTTPStatus.UNAUTHORIZED, receive, send)
        else:
            connection.authenticate()
            connection.allow(self._deadline_seconds)
            await self._routes(scope, receive, send)

    def note_unauthorized(self, connection: Connection, reason: str) -> None:
        self.unauthorized_count += 1
        self.unauthorized_log.warning(f"control.refused code=unauthorized from={connection.address}: {reason}")

    def flush_logs(self) -> None:
        self.unauthorized_log.flush()

    def end_streams(self) -> None:
        self.replies.close()

    def _is_authorized(self, authorization: str) -> bool:
        return self._token is None or hmac.compare_digest(authorization.encode(), f"Bearer {self._token}".encode())

    async def _post_command(self, request: Request) -> Response:
        length = request.headers.get("Content-Length")
        if length is None or "Transfer-Encoding" in request.headers:
            raise HTTPException(HTTPStatus.LENGTH_REQUIRED)
        if int(length) > MAX_COMMAND_BYTES:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            self.commands.put_nowait(await request.body())
        except ClientDisconnect as error:
            raise HTTPException(HTTPStatus.BAD_REQUEST) from error
        except Full as error:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE) from error
        return _response(HTTPStatus.ACCEPTED)

    async def _get_reply(self, request: Request) -> Response:
        request_id = request.path_params["request_id"]
        timeout_ms = request.query_params.get("timeoutMs", "30000")
        if not _REQUEST_ID.fullmatch(request_id):
            raise HTTPException(HTTPStatus.NOT_FOUND)
        if not re.fullmatch(r"[0-9]{1,9}", timeout_ms) or int(timeout_ms) > MAX_TIMEOUT_MS:
            raise HTTPException(HTTPStatus.BAD_REQUEST)
        events = self._events(request.state.connection, request_id, int(timeout_ms) / 1000)
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "Connection": "close"}
        return StreamingResponse(events, headers=headers)

    async def _events(self, connection: Connection, request_id: str, timeout_seconds: float) -> AsyncIterator[bytes]:
        """The reply when it is there, then the end; until then a comment at times, so that the reader knows it is open."""
        now = asyncio.get_running_loop().time
        end = now() + timeout_seconds
        while (left := end - now()) > 0 and not self.replies.is_closed:
            connection.allow(http_paths.ALIVE_SECONDS + self._deadline_seconds)
            reply = await self.replies.take(request_id, min(http_paths.ALIVE_SECONDS, left))
            if reply is not None:
                yield b"event: reply\ndata: " + reply + b"\n\n"
                break
            yield b": waiting\n\n"
        yield b"event: end\ndata: {}\n\n"


class ReplyBox:
    """Replies by request, each kept for a while and fetched once. Belongs to one event loop."""

    def __init__(self) -> None:
        self.is_closed = False
        self._waiting: OrderedDict[str, tuple[float, bytes]] = OrderedDict()  # with the time at which it expires
        self._changed = asyncio.Event()

    def put(self, request_id: str, reply: bytes) -> None:
        now = asyncio.get_running_loop().time()
        while self._waiting and (len(self._waiting) >= MAX_REPLIES or next(iter(self._waiting.values()))[0] <= now):
            self._waiting.popitem(last=False)
        self._waiting[request_id] = (now + REPLY_SECONDS, reply)
        self._wake()

    async def take(self, request_id: str, timeout_seconds: float) -> bytes | None:
        """Waits for it. None: the time is up, or the box was closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                while request_id not in self._waiting and not self.is_closed:
                    await self._changed.wait()
        _, reply = self._waiting.pop(request_id, (0.0, None))
        return reply

    def close(self) -> None:
        self.is_closed = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def is_own_host(hosts: list[str], listening_on: str) -> bool:
    """Whether a request's Host names us: by address, as localhost, or by the name that we listen on. A page that a browser
    was lured to has another name there, whatever address it resolves to."""
    if len(hosts) != 1:
        return False
    try:
        name = urlsplit(f"//{hosts[0]}").hostname or ""
    except ValueError:
        return False
    return name in ("localhost", listening_on) or _is_address(name)


async def _refuse(status: HTTPStatus, receive: Receive, send: Send) -> None:
    """Answer first, then read a little and throw it away, for as long as a head may take: closing with bytes unread would
    reset the connection, and with it the answer."""
    response = _response(status)
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    left = HEAD_BYTES
    while left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        if not message.get("more_body", False):
            break
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _on_http_exception(_: Request, error: Exception) -> Response:
    return _response(HTTPStatus(error.status_code)) if isinstance(error, HTTPException) else _response(HTTPStatus(500))


def _response(status: HTTPStatus) -> Response:
    return JSONResponse({"status": status.phrase}, status, headers={"Connection": "close"})


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
