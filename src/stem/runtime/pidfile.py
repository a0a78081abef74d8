"""Pid files that name a worker's process and tell it from a later one with the same number.

A file has three lines: the process id, the time of its start, and what no other process shares with it (the boot, and the
tick of its start). Programs that know pid files read the first line. A file of one line, written by another program, is read
as well, but no process is signalled because of it, nor because of a file that other users could have written.
"""

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from stem.core.errors import ConfigError
from stem.runtime.files import OTHERS_WRITE, reading

State = Literal["running", "missing", "unreadable", "stale", "recycled"]

# The start of a process is known in ticks, the time of a file in nanoseconds; and a clock may have been adjusted a little.
_CLOCK_TOLERANCE_SECONDS = 2.0
_MODE = 0o644
_MOST_BYTES = 4096
LOCK_SECONDS = 5.0  # a start holds the lock for some milliseconds
_LOCK_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Running:
    """The process that the file names is running."""

    pid: int
    since: datetime
    uptime_seconds: float
    start: str
    doubt: str = ""  # why the process must not be signalled because of this file; empty if it may be


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no such file."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The file cannot be used, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stale:
    """The process has ended and left its file behind."""

    pid: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Recycled:
    """The process has ended, and another one has its number now."""

    pid: int
    since: datetime


Reading = Running | Missing | Unreadable | Stale | Recycled


def read(path: Path) -> Reading:
    """Compare the file with the running processes."""
    try:
        with reading(path) as (descriptor, file):
            text = os.read(descriptor, _MOST_BYTES).decode()
    except FileNotFoundError:
        return Missing()
    except (OSError, UnicodeDecodeError) as error:
        return Unreadable((error.strerror if isinstance(error, OSError) else "") or "not text")
    entry = _parse(text, file.st_mtime)
    if isinstance(entry, Unreadable):
        return entry
    found = _look_up(entry)
    if not isinstance(found, Running):
        return found
    if not _may_name(file.st_uid, found.pid):
        return Unreadable(f"user {file.st_uid} owns it, and process {found.pid} is another user's")
    return replace(found, doubt=_doubt(file, entry))


def write_own(path: Path) -> None:
    """Write the file of this process, atomically."""
    pid = os.getpid()
    start = _start_of(pid)
    if start is None:
        raise FileNotFoundError(f"/proc/{pid}/stat")
    draft = f".{path.name}.{secrets.token_hex(8)}"  # new and unguessable, so that no planted file is written to
    with _folder_of(path) as folder:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE, dir_fd=folder)
        with open(descriptor, "w") as file:
            os.fchmod(descriptor, _MODE)  # whatever the umask: others may read it, and only its owner may write to it
            file.write(f"{pid}\n{written(_started_at(start))}\n{start}\n")
            file.flush()
            os.fsync(descriptor)  # else a power cut may leave an empty file, which no later start may replace
        os.replace(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)


def drop(path: Path, pid: int) -> None:
    """Remove the file of a process that has ended, unless another start has replaced it. Without the lock or the permission
    the file stays, which does no harm."""
    with suppress(ConfigError), locked(path):
        match read(path):
            case Stale(gone) | Recycled(gone) if gone == pid:
                with suppress(PermissionError):
                    path.unlink(missing_ok=True)
            case _:
                pass


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the file's folder, which one process at a time has; it ends with the process. Raises ConfigError if it
    does not become free: whoever can read a folder can lock it, and would hold up a start for ever."""
    end = time.monotonic() + LOCK_SECONDS
    with _folder_of(path) as folder:
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > end:
                    raise ConfigError(
                        f"Another process has locked the folder {path.parent} for more than {LOCK_SECONDS:g} s; find out who "
                        f"holds it (lsof {path.parent}), or keep pid files in a folder that only their user can read."
                    ) from error
                time.sleep(_LOCK_PAUSE_SECONDS)
        yield


def state_of(reading: Reading) -> State:
    match reading:
        case Running():
            return "running"
        case Missing():
            return "missing"
        case Unreadable():
            return "unreadable"
        case Stale():
            return "stale"
        case Recycled():
            return "recycled"


def sentence(path: Path, reading: Reading) -> str:
    match reading:
        case Running():
            return f"Process {reading.pid} has been running for {reading.uptime_seconds:.0f} s."
        case Missing():
            return f"There is no pid file {path}; the worker was never started by it, or has been stopped."
        case Unreadable():
            return f"The pid file {path} cannot be used ({reading.reason}); remove it and start the worker anew."
        case Stale():
            return f"The pid file {path} is stale: process {reading.pid} has ended; see its log, and start it anew."
        case Recycled():
            return (
                f"The pid file {path} is out of date: process {reading.pid} is another one now; start the worker anew."
            )


def written(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class _Entry:
    pid: int
    since: datetime
    start: str  # empty: the file was written by another program


@contextmanager
def _folder_of(path: Path) -> Iterator[int]:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


def _parse(text: str, written_at: float) -> _Entry | Unreadable:
    first, *rest = text.splitlines() or [""]
    if not (first.strip().isascii() and first.strip().isdigit() and 0 < int(first) < 2**31):
        return Unreadable("no process id on its first line" if text.strip() else "it is empty")
    if len(rest) < 2:
        return _Entry(int(first), datetime.fromtimestamp(written_at, UTC), "")
    try:
        return _Entry(int(first), datetime.fromisoformat(rest[0]).astimezone(UTC), rest[1].strip())
    except ValueError:
        return Unreadable("no moment on its second line")


def _look_up(entry: _Entry) -> Reading:
    start = _start_of(entry.pid)
    if start is None:
        return Stale(entry.pid, entry.since)
    is_same = start == entry.start if entry.start else _is_older(start, entry.since)
    if not is_same:
        return Recycled(entry.pid, entry.since)
    return Running(entry.pid, entry.since, round(_uptime(start), 3), start)


def _is_older(start: str, moment: datetime) -> bool:
    """A process that started after its pid file was written is not the one that the file names."""
    return _started_at(start).timestamp() <= moment.timestamp() + _CLOCK_TOLERANCE_SECONDS


def _doubt(file: os.stat_result, entry: _Entry) -> str:
    if file.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {file.st_uid}; run this as that user"
    if file.st_mode & OTHERS_WRITE:
        return "other users may write to it; look whom it names, and chmod it to 644"
    if not entry.start:
        return "it does not say when its process began; another program wrote it, which should also stop the process"
    return ""


def _may_name(owner: int, pid: int) -> bool:
    """Do not trust a file whose owner names the process of another user, because that process would be signalled."""
    if owner == 0:
        return True
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        return any(line.split()[1:2] == [str(owner)] for line in lines if line.startswith("Uid:"))
    return False


def _start_of(pid: int) -> str | None:
    """Return what identifies a running process; None for one that has ended, including a zombie."""
    with suppress(OSError, IndexError):
        # After the name, which may contain parentheses itself.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        if fields[0] not in ("Z", "X"):
            return f"{_boot()} {fields[19]}"
    return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _uptime(start: str) -> float:
    """Measure by the boot clock, which is never set."""
    ticks = int(start.rpartition(" ")[2])
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


def _started_at(start: str) -> datetime:
    return datetime.fromtimestamp(time.time() - _uptime(start), UTC)
