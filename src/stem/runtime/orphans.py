"""Adopts and kills orphaned processes and their descendants. Linux only."""

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
    """Make this process a child subreaper: orphaned descendants become its children instead of init's."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def children() -> list[int]:
    """List the direct children of this process, zombies included."""
    return [pid for pid, _, _ in _children()]


def this_tick() -> int:
    """Return the current clock tick, the unit of process start times."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def kill_children(spared: Collection[int] = (), *, begun_after: int = -1) -> None:
    """Kill all children but the spared ones and those started by that tick. Children of a killed child become children of
    this process if it adopts orphans."""
    for pid, state, began in _children():
        if pid in spared or began <= begun_after:
            continue
        with suppress(ProcessLookupError, PermissionError):  # a child may have become another user's
            os.kill(pid, signal.SIGKILL)
        if state == "Z":
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def end_children(*, within_seconds: float = 5.0) -> bool:
    """Kill all descendants and wait for their end. Returns False if there were none, and in any case after the time: a
    process may be stuck in the kernel or belong to another user."""
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


class ZombieReaper:
    """Reaps zombies that nothing else waits for, which a process that adopts orphans would otherwise collect."""

    def __init__(self) -> None:
        self._at = time.monotonic() + REAP_SECONDS
        self._dead: set[int] = set()

    def reap(self) -> None:
        """Reap once a minute what was dead the minute before. So the code that started a child has a minute to ask for its
        exit code. Cheap to call often."""
        if time.monotonic() < self._at:
            return
        dead = {pid for pid, state, _ in _children() if state == "Z"}
        for pid in dead & self._dead:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._at, self._dead = time.monotonic() + REAP_SECONDS, dead


def _children() -> Iterator[tuple[int, str, int]]:
    """Yield (pid, state, start tick). Reads every process's parent: few kernels can list the children of one."""
    own = str(os.getpid())
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError, IndexError):
                with open(f"/proc/{entry}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
                if fields[1] == own:
                    yield int(entry), fields[0], int(fields[19])
