"""What every handler of the dashboard works with: the app, the gate, the live feed and the templates."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from stem.dashboard.access.gate import Gate
from stem.dashboard.access.users import User
from stem.dashboard.rendering import Templates
from stem.dashboard.row_cache import RowCache

if TYPE_CHECKING:
    from stem.client.app import Stem
    from stem.contracts.steering.revokes import Revokes
    from stem.contracts.store import Store
    from stem.dashboard.live import LiveFeed


@dataclass(frozen=True, slots=True)
class Desk:
    """`lake` is where the pipeline keeps its tables, if it does."""

    stem: "Stem"
    gate: Gate
    templates: Templates
    feed: "LiveFeed"
    lake: str | None = None
    rows: RowCache = field(default_factory=RowCache)

    @property
    def store(self) -> "Store":
        return self.stem.store

    @contextmanager
    def revokes(self) -> "Iterator[Revokes]":
        with self.stem.store_connection.revokes() as revokes:
            yield revokes


def desk_of(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def user_of(request: Request) -> User | None:
    user: User | None = getattr(request.state, "user", None)
    return user


def is_partial(request: Request) -> bool:
    """Whether htmx asks for a part of a page."""
    return request.headers.get("hx-request") == "true"


def page(request: Request, template: str, status: int = 200, **context: Any) -> Response:
    """Render a template: the whole page, or its live part if that is what is asked for."""
    layout = "partial.html" if is_partial(request) else "layout.html"
    text = desk_of(request).templates.render(template, request, user_of(request), layout=layout, **context)
    return HTMLResponse(text, status)


def refusal(request: Request, status: int, sentence: str) -> Response:
    """One sentence: as text for a program or a part of a page, as a page for a browser."""
    if is_partial(request) or "text/html" not in request.headers.get("accept", ""):
        return PlainTextResponse(sentence, status)
    text = desk_of(request).templates.render(
        "problem.html", request, user_of(request), layout="layout.html", status=status, sentence=sentence
    )
    return HTMLResponse(text, status)
