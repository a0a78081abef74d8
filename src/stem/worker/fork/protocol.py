"""Requests of the supervisor to the fork server, and its replies."""

import msgspec


class LoadApp(msgspec.Struct, frozen=True, tag=True):
    """Import the app at `path`; the first request."""

    path: str


class StartIsolate(msgspec.Struct, frozen=True, tag=True):
    """Start an isolate with `slots`; `token` identifies it until its process id is known."""

    token: int
    slots: int
    is_inline: bool = False
    worker: str = ""  # its name


class ReapIsolate(msgspec.Struct, frozen=True, tag=True):
    pid: int


class Ping(msgspec.Struct, frozen=True, tag=True):
    """Answered at once, unless the fork server hangs."""


class EndApp(msgspec.Struct, frozen=True, tag=True):
    """Call what the app wants called when its worker stops, and exit; only sent if `AppLoaded.has_ending`."""


class Pong(msgspec.Struct, frozen=True, tag=True):
    """The answer."""


class AppLoaded(msgspec.Struct, frozen=True, tag=True):
    manifest: msgspec.Raw
    has_ending: bool = False  # the app wants something called when its worker stops


class AppRefused(msgspec.Struct, frozen=True, tag=True):
    """The app cannot be loaded."""

    sentence: str
    exit_code: int


class IsolateStarted(msgspec.Struct, frozen=True, tag=True):
    token: int
    pid: int


class IsolateExited(msgspec.Struct, frozen=True, tag=True):
    """`exit_code` is negative for a signal."""

    pid: int
    exit_code: int


Request = LoadApp | StartIsolate | ReapIsolate | Ping | EndApp
Reply = AppLoaded | AppRefused | IsolateStarted | IsolateExited | Pong
