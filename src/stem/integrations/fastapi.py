"""Stem in a FastAPI application: opened and closed with it, given to its handlers, its dashboard mounted beside them."""

import asyncio
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, FastAPI
from starlette.requests import HTTPConnection

from stem.client.app import Stem

if TYPE_CHECKING:
    from stem.dashboard.access.options import Access
    from stem.dashboard.application import Dashboard

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def lifespan(stem: Stem, inner: Lifespan | None = None) -> Lifespan:
    """`FastAPI(lifespan=lifespan(stem))`: open the store before the first request, and close it after the last.

    A store that cannot be reached stops the start. `inner` is a lifespan of your own, which runs while the store is open.
    """

    @asynccontextmanager
    async def lifespan_of_stem(web: FastAPI) -> AsyncGenerator[Any, None]:
        web.state.stem = stem
        await asyncio.to_thread(lambda: stem.store.upkeep.now())
        try:
            with _streams_end_with_the_server(_dashboards(web)):
                if inner is None:
                    yield None
                else:
                    async with inner(web) as state:
                        yield state
        finally:
            await asyncio.to_thread(stem.close)

    return lifespan_of_stem


def stem_of(connection: HTTPConnection) -> Stem:
    """The app that `lifespan` has opened; a dependency: `stem: Annotated[Stem, Depends(stem_of)]`, or `stem: StemApp`."""
    found: Stem = connection.app.state.stem
    return found


StemApp = Annotated[Stem, Depends(stem_of)]


def mount_dashboard(
    web: FastAPI, stem: Stem, path: str = "/stem", access: "Access | None" = None, *, lake: str | None = None
) -> "Dashboard":
    """Serve the dashboard under a path of the application. Without an `access` that has a login, only requests from this
    machine are answered. Needs the extra `dashboard`. Raises ConfigError."""
    from stem.dashboard.application import dashboard

    made = dashboard(stem, access, lake=lake)
    web.mount(path, made)
    _dashboards(web).append(made)
    return made


def _dashboards(web: FastAPI) -> "list[Dashboard]":
    if not hasattr(web.state, "stem_dashboards"):
        web.state.stem_dashboards = []
    found: list[Dashboard] = web.state.stem_dashboards
    return found


@contextmanager
def _streams_end_with_the_server(dashboards: "list[Dashboard]") -> Iterator[None]:
    """Open pages follow the store over a response without end, for which a server would wait before it stops. So the streams
    are closed as soon as the server is told to stop, and the server's own handler is called after that."""
    if not dashboards or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: FrameType | None) -> None:
        for each in dashboards:
            each.state.desk.feed.close()
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)
        elif handler == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in dashboards:
            each.state.desk.feed.close()
