"""The starlette application of the probes: `/livez`, `/readyz`, `/metrics` and `/scale`. All of them only read."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from stem.control.transports.http_app import is_own_host
from stem.control.transports.http_connection import Connection
from stem.core.delivery import Depth
from stem.core.envelope import check_queue
from stem.core.errors import InvalidTask, StemError
from stem.core.text.loopback import is_loopback
from stem.telemetry.metrics import Metrics
from stem.telemetry.probed import Probed

SCALE_SECONDS = 3.0  # for the store to count
KEPT_SECONDS = 1.0  # a count is good for all who ask within this
MOST_QUEUES = 100
MOST_COUNTS = 16  # of different queues, at the same time

Counts = Mapping[str, Depth]


class HealthApp:
    """Runs in the server's event loop. `host` is the one that it listens on: on loopback, a request must name this machine,
    because a page in a browser may have been led here by another name."""

    def __init__(self, probed: Probed, host: str) -> None:
        self._probed = probed
        self._host = host.lower()
        self._is_local = is_loopback(host)
        self._counts: dict[tuple[str, ...], asyncio.Task[Counts]] = {}
        self._rendering: tuple[Metrics, Any] | None = None
        self._routes = Starlette(
            routes=[
                Route("/livez", self._live),
                Route("/readyz", self._ready),
                Route("/metrics", self._metrics),
                Route("/scale", self._scale),
            ]
        )
        self._routes.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection: Connection = scope["state"]["connection"]
        connection.allow(2 * SCALE_SECONDS)
        if self._is_local and not is_own_host(Headers(scope=scope).getlist("Host"), self._host):
            await _json({"status": "the request's Host is not ours"}, HTTPStatus.BAD_REQUEST)(scope, receive, send)
        else:
            await self._routes(scope, receive, send)

    def note_unauthorized(self, connection: Connection, reason: str) -> None:
        """There is no TLS here that could fail."""

    def flush_logs(self) -> None: ...

    def end_streams(self) -> None: ...

    async def _live(self, _: Request) -> Response:
        reason = self._probed.liveness()
        return _json({"alive": not reason, **({"reason": reason} if reason else {})}, _status(not reason))

    async def _ready(self, _: Request) -> Response:
        told = self._probed.readiness()
        return _json(told, _status(told["ready"]))

    async def _metrics(self, request: Request) -> Response:
        metrics = self._probed.metrics
        if metrics is None:
            return _json({"status": "starting"}, HTTPStatus.SERVICE_UNAVAILABLE)
        try:
            from stem.telemetry.prometheus import PrometheusText
        except ModuleNotFoundError as error:
            missing = f"Metrics need the package {error.name!r}; pip install 'stem-tasks[metrics]'."
            return _json({"status": missing}, HTTPStatus.NOT_IMPLEMENTED)
        if self._rendering is None or self._rendering[0] is not metrics:
            self._rendering = metrics, PrometheusText(metrics)
        render = self._rendering[1].render
        text, content_type = await asyncio.to_thread(render, request.headers.get("Accept", ""))
        return Response(text, headers={"Content-Type": content_type, "Connection": "close"})

    async def _scale(self, request: Request) -> Response:
        queues = tuple(dict.fromkeys(request.query_params.getlist("queue")))
        try:
            if len(queues) > MOST_QUEUES:
                raise InvalidTask(f"{len(queues)} queues are too many; name up to {MOST_QUEUES}.")
            for queue in queues:
                check_queue(queue)
            counts = await self._count(queues)
        except InvalidTask as error:
            return _json({"status": str(error)}, HTTPStatus.BAD_REQUEST)
        except (StemError, TimeoutError) as error:
            return _json({"status": f"The store did not count: {error}"}, HTTPStatus.SERVICE_UNAVAILABLE)
        due, running = sum(each.ready for each in counts.values()), sum(each.running for each in counts.values())
        told = {"queues": sorted(counts), "due": due, "running": running, "value": due + running}
        return _json(told, HTTPStatus.OK)

    async def _count(self, queues: tuple[str, ...]) -> Counts:
        """Count once for all who ask at about the same time. A count that hangs is not begun again."""
        task = self._counts.get(queues)
        if task is None:
            if len(self._counts) >= MOST_COUNTS:
                raise TimeoutError("too many questions at once")
            task = self._counts[queues] = asyncio.create_task(asyncio.to_thread(self._probed.depths, queues))
            task.add_done_callback(lambda _: self._forget_soon(queues))
        async with asyncio.timeout(SCALE_SECONDS):
            return await asyncio.shield(task)

    def _forget_soon(self, queues: tuple[str, ...]) -> None:
        asyncio.get_running_loop().call_later(KEPT_SECONDS, self._counts.pop, queues, None)


def _status(is_well: bool) -> HTTPStatus:
    return HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE


def _json(told: Mapping[str, Any], status: HTTPStatus) -> Response:
    return JSONResponse(told, status, headers={"Connection": "close", "Cache-Control": "no-store"})
