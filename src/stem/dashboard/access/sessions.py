"""Sessions of people who have logged in: random, kept in this process, and over after a while."""

import hashlib
import secrets
import time
from collections import OrderedDict
from threading import Lock

from stem.dashboard.access.users import User

COOKIE = "stem_session"
MOST = 10_000


class Sessions:
    """Safe from any thread. Only digests of the tokens are kept."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._users: OrderedDict[bytes, tuple[float, User]] = OrderedDict()
        self._lock = Lock()

    def begin(self, user: User) -> str:
        """Return the token of a new session."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            while len(self._users) >= MOST:
                self._users.popitem(last=False)
            self._users[_digest(token)] = (time.monotonic() + self.seconds, user)
        return token

    def user_of(self, token: str) -> User | None:
        with self._lock:
            end, user = self._users.get(_digest(token), (0.0, None))
            if user is not None and time.monotonic() >= end:
                del self._users[_digest(token)]
                return None
            return user

    def end(self, token: str) -> None:
        with self._lock:
            self._users.pop(_digest(token), None)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
