"""Events: the newest ones, and those that follow as they happen."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from stem.core.errors import ConfigError
from stem.core.lifecycle import EventKind
from stem.dashboard.access.roles import needs
from stem.dashboard.desk import desk_of, refusal, user_of
from stem.dashboard.handling import PageRequest
from stem.dashboard.live import News
from stem.observe.event_log import EventFilter, newest_events

SHOWN = 100
FIELDS = ("kind", "name", "queue", "worker")


def events_page(ask: PageRequest) -> dict[str, Any]:
    where = _filter(ask.query)
    return {
        "title": "Events",
        "events": newest_events(ask.store, where, limit=SHOWN),
        "kinds": list(EventKind),
        "where": where,
    }


@needs("viewer")
async def live_stream(request: Request) -> Response:
    """Server-sent events: `ready`, `changed`, `lost` with a sentence, `back`; with `?events=1` also rows of a table as `rows`."""
    desk = desk_of(request)
    where = _filter(request.query_params) if request.query_params.get("events") else None
    user = user_of(request)
    who = "" if user is None else f"{user.via} {user.name}"
    if not desk.feed.take_place(who):
        return refusal(request, 503, "Too many pages follow the store; close some of them.")

    async def messages() -> AsyncGenerator[str, None]:
        yield "retry: 2000\n\n"
        async with aclosing(desk.feed.follow()) as feed:
            async for news in feed:
                if not _is_let_in(request):  # any more
                    return
                if where is not None and news.events and (rows := _rows(request, news, where)):
                    yield _message("rows", rows)
                yield ": alive\n\n" if news.kind == "alive" else _message(news.kind, news.problem)

    return LiveResponse(messages(), lambda: desk.feed.give_back_place(who))


class LiveResponse(StreamingResponse):
    """Closes its generator whatever ends it, so that who has left is not told any more, and gives its place back."""

    def __init__(self, messages: AsyncGenerator[str, None], give_back: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(messages, media_type="text/event-stream", headers=headers)
        self._messages = messages
        self._give_back = give_back

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._give_back()
            await self._messages.aclose()


def _is_let_in(request: Request) -> bool:
    try:
        return desk_of(request).gate.user(request) is not None
    except ConfigError:
        return False


def _rows(request: Request, news: News, where: EventFilter) -> str:
    events = [event for event in reversed(news.events) if where.matches(event)][:SHOWN]
    templates = desk_of(request).templates
    return templates.render("event_rows.html", request, user_of(request), events=events) if events else ""


def _message(kind: str, data: str) -> str:
    lines = "".join(f"data: {line}\n" for line in data.split("\n"))
    return f"event: {kind}\n{lines}\n"


def _filter(values: Any) -> EventFilter:
    return EventFilter(**{name: values.get(name, "").strip() for name in FIELDS})
