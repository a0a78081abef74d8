"""Log in and out."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from stem.core.errors import ConfigError
from stem.core.text.escaping import plain
from stem.dashboard.access.attempts import LoginAttempts
from stem.dashboard.access.gate import Gate, peer_of
from stem.dashboard.access.roles import Endpoint, needs, passwords_unreadable
from stem.dashboard.access.sessions import COOKIE
from stem.dashboard.access.users import User
from stem.dashboard.desk import desk_of, page
from stem.dashboard.handling import read_form

log = logging.getLogger("stem.dashboard")

MOST_WAITING = 8  # logins that wait while another is checked
BUSY = "Too many people log in right now; try again in a few seconds."
WRONG = "That is not right; check both, and try again."


class LoginPages:
    """Passwords are checked one at a time in a thread of their own: whoever guesses must not hold up the pages."""

    def __init__(self) -> None:
        self._attempts = LoginAttempts()
        self._checker = ThreadPoolExecutor(1, "dashboard-login")
        self._waiting = 0

    def endpoints(self) -> tuple[Endpoint, Endpoint, Endpoint]:
        return needs(None)(self._form), needs(None)(self._log_in), needs(None)(self._log_out)

    async def _form(self, request: Request) -> Response:
        if not desk_of(request).gate.access.has_form:
            return RedirectResponse(_home(request), status_code=303)
        return _login_page(request, "")

    async def _log_in(self, request: Request) -> Response:
        gate, peer = desk_of(request).gate, peer_of(request)
        form = {name: values[-1] for name, values in (await read_form(request)).items()}
        if (wait := self._attempts.take(peer)) > 0:
            return _login_page(request, f"Too many attempts; try again in {wait:.0f} s.", 429)
        if self._waiting > MOST_WAITING:
            self._attempts.give_back(peer)
            return _login_page(request, BUSY, 429)
        name = form.get("name", "").strip()
        try:
            user = await self._checked(gate, name, form.get("password", ""))
        except ConfigError as error:
            self._attempts.give_back(peer)
            return passwords_unreadable(request, error)
        if user is None:
            log.warning("login.refused who=%s from=%s", plain(name[:128]), plain(peer))
            return _login_page(request, WRONG, 401)
        self._attempts.give_back(peer)
        log.info("login.accepted who=%s from=%s", user.name, plain(peer))
        gate.sessions.end(request.cookies.get(COOKIE, ""))
        response = RedirectResponse(_home(request), status_code=303)
        response.set_cookie(
            COOKIE,
            gate.sessions.begin(user),
            max_age=int(gate.sessions.seconds),
            path=_path(request),
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return response

    async def _checked(self, gate: Gate, name: str, password: str) -> User | None:
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._checker, _user, gate, name, password)
        finally:
            self._waiting -= 1

    async def _log_out(self, request: Request) -> Response:
        desk_of(request).gate.sessions.end(request.cookies.get(COOKIE, ""))
        response = RedirectResponse(f"{_home(request)}login", status_code=303)
        response.delete_cookie(COOKIE, path=_path(request))
        return response


def _user(gate: Gate, name: str, password: str) -> User | None:
    """A user of the password file, or whoever has the token."""
    if gate.passwords is not None and name:
        mark = gate.passwords.mark_of(name)  # before the check, so that a change in between ends the session at once
        if (role := gate.passwords.check(name, password)) is not None:
            return User(name, role, "password", mark)
    return User("token", "operator", "token") if password and gate.is_token(password) else None


def _login_page(request: Request, problem: str, status: int = 200) -> Response:
    access = desk_of(request).gate.access
    return page(
        request,
        "login.html",
        status,
        title="Log in",
        problem=problem,
        has_names=access.password_file is not None,
    )


def _home(request: Request) -> str:
    return f"{request.scope.get('root_path', '')}/"


def _path(request: Request) -> str:
    return request.scope.get("root_path", "") or "/"
