"""Process control: parent-death signals, reaping, OOM counts, memory."""

import ctypes
import os
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress

_PR_SET_PDEATHSIG = 1

imports_for_isolates = False  # true in a worker's fork server and isolates, where no other worker may start
at_worker_end: list[Callable[[], object]] = []  # called in the fork server when its worker stops


def call_at_end() -> None:
    """Call what wants to be called when the worker stops. What one of them raises stops no other."""
    for call in at_worker_end:
        try:
            call()
        except Exception:  # noqa: BLE001 - it is the app's own code, and the process ends
            traceback.print_exc()


def die_with(parent: int) -> None:
    """Make the kernel kill this process when its parent ends; kill it now if that has happened."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def reap_orphans(own: int | None) -> int:
    """Reap orphans that PID 1 inherits. `own` is the child that other code waits for. Returns how many were reaped."""
    count = 0
    with suppress(ChildProcessError):
        while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if found.si_pid == own:
                break  # those behind it are for the next round, when it has been waited for
            os.waitpid(found.si_pid, os.WNOHANG)
            count += 1
    return count


def oom_kills() -> int:
    """Return how many processes the kernel killed for lack of memory, in our control group or else on the machine."""
    for path, name in (("/sys/fs/cgroup/memory.events", "oom_kill"), ("/proc/vmstat", "oom_kill")):
        try:
            with open(path) as file:
                for line in file:
                    key, _, value = line.partition(" ")
                    if key == name:
                        return int(value)
        except OSError:
            continue
    return 0


def start_ticks(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot, which tells it from a later one of the same pid. None: it has
    ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[19]  # its name may hold anything
    except (OSError, IndexError):
        return None


def prefer_for_oom() -> None:
    """Make this process and its children the first to be killed when memory runs out."""
    with suppress(OSError, ValueError), open("/proc/self/oom_score_adj", "r+") as file:
        score = min(1000, int(file.read()) + 500)
        file.seek(0)
        file.write(str(score))


def usable_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def resident_bytes(pid: int, *, is_alone: bool = False) -> int:
    """Return the memory of a process group, or (ten times cheaper) of the process alone; 0 if it has ended."""
    return sum(_resident(member) for member in ([pid] if is_alone else _group_of(pid)))


def _group_of(pid: int) -> list[int]:
    members = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(ProcessLookupError, PermissionError):
                if int(entry) == pid or os.getpgid(int(entry)) == pid:
                    members.append(int(entry))
    return members


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
