"""Processes whose parent has ended: who adopts them, and how they are ended with all that they have started. Linux only."""

import ctypes
import os
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import suppress

_PR_SET_CHILD_SUBREAPER = 36

REAP_SECONDS = 60.0
_PAUSE_SECONDS = 0.005


def adopt_orphans() -> None:
    """From now on a descendant whose parent ends becomes a child of this process instead of init's."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def children() -> list[int]:
    """The direct children of this process, dead ones that nobody has waited for included."""
    return [pid for pid, _ in _children()]


def kill_children(spared: Collection[int] = ()) -> None:
    """All but these. What a killed child had started becomes a child of this process, if that adopts orphans."""
    for pid, state in _children():
        if pid in spared:
            continue
        with suppress(ProcessLookupError, PermissionError):  # a child may have become another user's
            os.kill(pid, signal.SIGKILL)
        if state == "Z":
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def end_children(*, within_seconds: float = 5.0) -> bool:
    """Kill all descendants, however deep, and wait for their end. False: there were none. Returns in any case after the
    time: the kernel may be busy with one, or one may belong to another user."""
    ends_at, had_any = time.monotonic() + within_seconds, False
    while time.monotonic() < ends_at:
        kill_children()
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                had_any = True
        except ChildProcessError:
            return had_any
        had_any = True
        time.sleep(_PAUSE_SECONDS)
    return had_any


class DeadChildren:
    """Waits for dead children that nobody else waits for; else a process that adopts orphans would collect them for ever."""

    def __init__(self) -> None:
        self._at = time.monotonic() + REAP_SECONDS
        self._dead: set[int] = set()

    def reap(self) -> None:
        """Cheap enough to be called often: looks once a minute, and reaps who was dead the last time as well. So whoever
        started a child has had a minute to ask for its exit code."""
        if time.monotonic() < self._at:
            return
        dead = {pid for pid, state in _children() if state == "Z"}
        for pid in dead & self._dead:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._at, self._dead = time.monotonic() + REAP_SECONDS, dead


def _children() -> Iterator[tuple[int, str]]:
    """With their state. Asks every process who its parent is: few kernels can list the children of one."""
    own = str(os.getpid())
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError, IndexError):
                with open(f"/proc/{entry}/stat") as file:
                    state, parent = file.read().rpartition(")")[2].split()[:2]
                if parent == own:
                    yield int(entry), state
