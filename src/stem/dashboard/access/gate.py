"""Find out who asks, and refuse requests that are not ours: another host's name, or another site's form."""

import hmac
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import Request

from stem.core.text.loopback import is_loopback
from stem.dashboard.access.options import Access
from stem.dashboard.access.passwords import PasswordFile
from stem.dashboard.access.sessions import COOKIE, Sessions
from stem.dashboard.access.users import Role, User, is_user_name

FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
ROLE_HEADER = "Stem-Role"  # in which a trusted proxy may lower a role: all but `operator` is a viewer


class Gate:
    """`host` is the name that we listen on, where we know it."""

    def __init__(self, access: Access, host: str | None) -> None:
        """Raises ConfigError."""
        self.access = access
        self.passwords = None if access.password_file is None else PasswordFile(access.password_file)
        self.sessions = Sessions(access.session_seconds)
        self._hosts = {
            "localhost",
            *(name.lower() for name in access.allowed_hosts),
            *((host.lower(),) if host else ()),
        }
        self._is_host_checked = host is not None or not access.has_login or bool(access.allowed_hosts)

    def user(self, request: Request) -> User | None:
        """None: nobody that we know. Raises ConfigError if the password file cannot be read."""
        found = self._known(request)
        if found is None or not self.access.read_only:
            return found
        return User(found.name, "viewer", found.via)

    def is_for_us(self, request: Request) -> bool:
        """Whether Host names us. A page that a browser was lured to has another name, whatever address it resolves to."""
        if not self._is_host_checked:
            return True  # mounted in another application, and nobody gets in without a login
        hosts = request.headers.getlist("host")
        name = _name_of(hosts[0]) if len(hosts) == 1 else ""
        return name in self._hosts or _is_address(name)

    def is_same_origin(self, request: Request) -> bool:
        """Whether a form was sent by a page of ours. A client that is no browser says so by showing the token."""
        headers = request.headers
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is None and origin is None:
            return self._shows_token(request)
        if site is not None and site != "same-origin":
            return False
        host = headers.get("host", "").lower()  # without one, an origin of "null" would be ours
        return origin is None or (host != "" and _place_of(origin) == host)

    def is_token(self, text: str) -> bool:
        token = self.access.token
        return token is not None and hmac.compare_digest(text.encode(), token.encode())

    def _known(self, request: Request) -> User | None:
        if self._shows_token(request):
            return User("token", "operator", "token")
        if self.access.trusted_header is not None and (found := self._from_proxy(request)) is not None:
            return found
        if not self.access.has_login:
            return User("local", "operator", "loopback") if _is_from_here(request) else None
        return self._from_session(request)

    def _shows_token(self, request: Request) -> bool:
        kind, _, shown = request.headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self.is_token(shown.strip())

    def _from_proxy(self, request: Request) -> User | None:
        names = request.headers.getlist(self.access.trusted_header or "")
        if peer_of(request) not in self.access.trusted_proxies or _names_its_peer(request):
            return None
        if len(names) != 1 or not is_user_name(names[0]):
            return None
        said = [value.strip().lower() for value in request.headers.getlist(ROLE_HEADER)]
        role: Role = "operator" if said in ([], ["operator"]) else "viewer"
        return User(names[0], role, "proxy")

    def _from_session(self, request: Request) -> User | None:
        user = self.sessions.user_of(request.cookies.get(COOKIE, ""))
        if user is None or user.via != "password" or self.passwords is None:
            return user
        role = self.passwords.role_of(user.name)  # as the file says now: a user may have been removed
        if role is None or user.mark != self.passwords.mark_of(user.name):
            return None
        return User(user.name, role, user.via, user.mark)


def peer_of(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _is_from_here(request: Request) -> bool:
    """A proxy on this machine would make everybody look local; one that says for whom it asks is not believed to."""
    return is_loopback(peer_of(request)) and not any(name in request.headers for name in FORWARDED)


def _names_its_peer(request: Request) -> bool:
    """Whether the server we are mounted in may have taken the peer from a header, as uvicorn does by default, which anybody
    can write. A proxy names whom it asks for, and not itself."""
    named = [part.strip() for text in request.headers.getlist("x-forwarded-for") for part in text.split(",")]
    return peer_of(request) in named


def _name_of(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _place_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
