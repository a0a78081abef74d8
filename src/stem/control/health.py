"""Derives the state of a worker from its reply, or from the lack of one and its last heartbeat."""

import os
from pathlib import Path
from typing import Literal

from stem.core.control import Reply
from stem.core.heartbeat import Pulse

Health = Literal["ok", "wedged", "draining", "paused", "refused", "dead", "timeout"]

_TOLD: tuple[Health, ...] = ("ok", "wedged", "draining", "paused")  # what a worker can say of itself


def health(reply: Reply, pulse: Pulse | None) -> Health:
    """Of the worker, not of its reply: one that refuses a command is alive. `pulse` is asked for after a silence; `dead`
    is one that has no heartbeat any more, or whose process is gone from this machine."""
    if reply.status != "timeout":
        # One that says no says nothing of how it is; `ok` beside a refusal would mislead.
        unsaid: Health = "ok" if reply.status == "ok" else "refused"
        return next((state for state in _TOLD if state == reply.payload.get("state")), unsaid)
    if pulse is None:
        is_unknown = reply.error is not None and reply.error.code == "unknown-worker"
        return "timeout" if is_unknown else "dead"
    import socket  # not before it is needed: most workers answer

    is_here = pulse.heartbeat.host == socket.gethostname()
    return "dead" if is_here and not is_running(pulse.heartbeat.pid) else "timeout"


def is_running(pid: int) -> bool:
    """One that has ended and waits to be reaped by its parent does not run."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        # After the name, which may itself hold parentheses.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return True  # a system without /proc
