"""What a supervisor asks of its fork server, and what that answers."""

import msgspec


class Load(msgspec.Struct, frozen=True, tag=True):
    """Import the app at `path`; the first request."""

    path: str


class Start(msgspec.Struct, frozen=True, tag=True):
    """Make an isolate of `slots`; `token` names it until its process id is known."""

    token: int
    slots: int
    is_lane: bool = False
    worker: str = ""  # its name


class Bury(msgspec.Struct, frozen=True, tag=True):
    pid: int


class Loaded(msgspec.Struct, frozen=True, tag=True):
    manifest: msgspec.Raw


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The app cannot be loaded."""

    sentence: str
    exit_code: int


class Born(msgspec.Struct, frozen=True, tag=True):
    token: int
    pid: int


class Exited(msgspec.Struct, frozen=True, tag=True):
    """`exit_code` is negative for a signal."""

    pid: int
    exit_code: int


Request = Load | Start | Bury
Reply = Loaded | Refused | Born | Exited
