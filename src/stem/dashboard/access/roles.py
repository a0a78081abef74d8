"""Let only those through who may: the one decorator of every handler."""

import logging
from collections.abc import Awaitable, Callable
from functools import wraps

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from stem.core.errors import ConfigError
from stem.dashboard.access.users import Role
from stem.dashboard.desk import Desk, desk_of, refusal

log = logging.getLogger("stem.dashboard")

Endpoint = Callable[[Request], Awaitable[Response]]

NOT_OURS = "This request does not name this dashboard; use its address, or add the name with --allowed-host."
CROSS_SITE = "This request came from another site, so nothing was done; use the buttons of the dashboard itself."
NO_LOGIN = (
    "Only this machine is served, because no login is configured; start the dashboard with --password-file, --token or "
    "--trusted-header."
)
UNREADABLE = "Nobody can be let in, because the password file cannot be read; the dashboard's log says why."
LOG_IN = "You have to log in first."
VIEWER = "You are logged in as a viewer, and only operators can change anything."


def needs(role: Role | None) -> Callable[[Endpoint], Endpoint]:
    """Check the host of every request, the origin of every POST, and the role of the user; None: nobody has to log in."""

    def guarded(endpoint: Endpoint) -> Endpoint:
        @wraps(endpoint)
        async def handle(request: Request) -> Response:
            desk = desk_of(request)
            if not desk.gate.is_for_us(request):
                return refusal(request, 400, NOT_OURS)
            if request.method not in ("GET", "HEAD") and not desk.gate.is_same_origin(request):
                return refusal(request, 403, CROSS_SITE)
            if role is None:
                return await endpoint(request)
            try:
                user = desk.gate.user(request)
            except ConfigError as error:
                return passwords_unreadable(request, error)
            if user is None:
                return _ask_to_log_in(request, desk)
            if role == "operator" and not user.is_operator:
                return refusal(request, 403, VIEWER)
            request.state.user = user
            return await endpoint(request)

        return handle

    return guarded


def passwords_unreadable(request: Request, error: ConfigError) -> Response:
    """Who is not let in yet must not read where the file is."""
    log.error("passwords.unreadable: %s", error)
    return refusal(request, 503, UNREADABLE)


def _ask_to_log_in(request: Request, desk: Desk) -> Response:
    access = desk.gate.access
    if not access.has_login:
        return refusal(request, 403, NO_LOGIN)
    if not access.has_form:
        return refusal(request, 401, f"{LOG_IN} The proxy in front of this dashboard has not said who you are.")
    place = f"{request.scope.get('root_path', '')}/login"
    if request.headers.get("hx-request"):
        return Response(status_code=401, headers={"HX-Redirect": place})
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(place, status_code=303)
    return refusal(request, 401, LOG_IN)
