"""Turn plain functions into handlers: pages that read, and actions that change something and are written down."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stem.contracts.store import Store
from stem.core.errors import StemError, StoreUnavailable, UsageError
from stem.core.lifecycle import EventKind
from stem.core.text.escaping import plain
from stem.dashboard.access.gate import peer_of
from stem.dashboard.access.roles import needs
from stem.dashboard.access.users import User
from stem.dashboard.desk import Desk, desk_of, is_partial, page, refusal, user_of

log = logging.getLogger("stem.dashboard")

MAX_FORM_BYTES = 1024 * 1024
MOST_TOLD = 5  # tasks and details of one action, in the audit
CHANGED = "stemChanged"  # the event on which a page reads its live part anew


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a page is asked."""

    desk: Desk
    user: User
    path: Mapping[str, str]
    query: Mapping[str, str]

    @property
    def store(self) -> Store:
        return self.desk.store

    def text(self, name: str) -> str | None:
        """A filter of the address; None where it is empty."""
        return self.query.get(name, "").strip() or None


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """What an operator wants done."""

    desk: Desk
    user: User
    path: Mapping[str, str]
    form: Mapping[str, str]
    all_values: Mapping[str, list[str]]

    @property
    def store(self) -> Store:
        return self.desk.store

    def text(self, name: str) -> str | None:
        return self.form.get(name, "").strip() or None


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What was done, in a sentence. `task_ids` or `details` say more; `is_partly` if not all of it could be, `is_failed` if
    nothing was."""

    text: str
    task_ids: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    is_partly: bool = False
    is_failed: bool = False

    @property
    def told(self) -> str:
        """For the audit: with the tasks, and with what was not done."""
        return " ".join([self.text, *self.task_ids[:MOST_TOLD], *self.details[:MOST_TOLD]])


Ask = Callable[[PageRequest], dict[str, Any]]
Act = Callable[[ActionRequest], ActionResult]


def page_route(path: str, template: str, ask: Ask) -> Route:
    """A page that viewers may see. `ask` returns what the template shows, and runs in a thread."""

    @needs("viewer")
    @wraps(ask)
    async def handle(request: Request) -> Response:
        question = PageRequest(desk_of(request), _user(request), request.path_params, dict(request.query_params))

        def answer() -> Response:
            return page(request, template, **ask(question))

        return await _answered(request, answer)

    return Route(path, handle, methods=["GET"], name=template)


def action_route(path: str, what: str, act: Act, *, confirm: str = "") -> Route:
    """Something that operators may do. `what` names it in the audit, `confirm` is what to ask before it is done."""

    @needs("operator")
    @wraps(act)
    async def handle(request: Request) -> Response:
        values = await read_form(request)
        form = {name: each[-1] for name, each in values.items()}
        order = ActionRequest(desk_of(request), _user(request), request.path_params, form, values)
        if confirm and form.get("confirmed") != "yes":
            sentence = confirm.format_map(_Known({**form, **request.path_params}))
            return page(request, "confirm.html", 200, sentence=sentence, values=values)

        def answer() -> Response:
            try:
                done = act(order)
            except StemError as error:
                _write_down(request, order, what, f"refused: {error}")
                raise
            _write_down(request, order, what, done.told)
            return _said(request, done)

        return await _answered(request, answer)

    return Route(path, handle, methods=["POST"])


class _Known(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return ""


async def read_form(request: Request) -> dict[str, list[str]]:
    """The fields of a form; raises HTTPException for a body that is too large or no form."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_FORM_BYTES:
            raise HTTPException(413)
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=1000)
    except ValueError as error:
        raise HTTPException(400) from error
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return values


async def _answered(request: Request, answer: Callable[[], Response]) -> Response:
    try:
        return await run_in_threadpool(answer)
    except StoreUnavailable as error:
        return refusal(request, 503, str(error))
    except StemError as error:
        status = 404 if error.exit_code == 1 else 400 if isinstance(error, UsageError) else 502
        if request.method == "POST" and is_partial(request):
            return _notice(request, str(error), "failed", status=status)
        return refusal(request, status, str(error))


def _said(request: Request, done: ActionResult) -> Response:
    level = "failed" if done.is_failed else "warning" if done.is_partly else "done"
    return _notice(request, done.text, level, done.task_ids, done.details, status=409 if done.is_failed else 200)


def _notice(
    request: Request,
    text: str,
    level: str,
    task_ids: tuple[str, ...] = (),
    details: tuple[str, ...] = (),
    *,
    status: int = 200,
) -> Response:
    """A part of the page for htmx; a page with a link back without."""
    response = page(request, "notice.html", status, text=text, level=level, task_ids=task_ids, details=details)
    if is_partial(request):
        response.headers["HX-Trigger"] = CHANGED
    return response


def _write_down(request: Request, order: ActionRequest, what: str, result: str) -> None:
    """Into the log and into the event log of the store. The action is done, so a store that fails now is only logged."""
    subject, result, peer = plain(_subject(order)), plain(result), plain(peer_of(request))
    log.info("operator.acted who=%s from=%s what=%s on=%s: %s", order.user.name, peer, what, subject, result)
    data = {
        "who": order.user.name,
        "via": order.user.via,
        "from": peer,
        "what": what,
        "on": subject[:500],
        "result": result[:1000],
    }
    try:
        order.store.events.note(EventKind.OPERATOR_ACTED, worker="", data=data)
    except StemError as error:
        log.warning("operator.unwritten who=%s what=%s: %s", order.user.name, what, error)


def _subject(order: ActionRequest) -> str:
    """What the address names; for an action on all that match, what was to match."""
    if order.path:
        return " ".join(order.path.values())
    return " ".join(f"{name}={value}" for name, value in order.form.items() if value and name != "confirmed")


def _user(request: Request) -> User:
    user = user_of(request)
    assert user is not None  # noqa: S101 - `needs` has seen to it
    return user
