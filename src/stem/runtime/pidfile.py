"""The file that says which process a worker is, and that can tell it from a later one with the same number.

Three lines: the process id, since when, and what no other process has in common with it (the boot, and the tick of its
start). Programs that know pid files read the first line. A file of one line, written by another program, is read, too,
but nobody is signalled on its word. Nor on that of a file that others could have written: whoever is named is killed.
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

from stem.runtime.files import OTHERS_WRITE, reading

State = Literal["running", "missing", "unreadable", "stale", "recycled"]

# The start of a process is told in ticks, the time of a file to the nanosecond; and a clock may have been set a little.
_CLOCK_TOLERANCE_SECONDS = 2.0
_MODE = 0o644
_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Running:
    pid: int
    since: datetime
    uptime_seconds: float
    start: str
    doubt: str = ""  # why nobody should be signalled on the word of this file; empty if there is no reason


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no such file."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    reason: str


@dataclass(frozen=True, slots=True)
class Stale:
    """The process has ended without taking its file along."""

    pid: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Recycled:
    """The process has ended, and another one has its number now."""

    pid: int
    since: datetime


Reading = Running | Missing | Unreadable | Stale | Recycled


def read(path: Path) -> Reading:
    """What the file and the system's table of processes say together."""
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
    """For this process, whole or not at all."""
    pid = os.getpid()
    start = _start_of(pid)
    if start is None:
        raise FileNotFoundError(f"/proc/{pid}/stat")
    draft = f".{path.name}.{secrets.token_hex(8)}"  # new and not to be guessed: what others planted is never written to
    with _folder_of(path) as folder:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE, dir_fd=folder)
        with open(descriptor, "w") as file:
            os.fchmod(descriptor, _MODE)  # whatever the umask: others may read it, and only its owner may write to it
            file.write(f"{pid}\n{written(_started_at(start))}\n{start}\n")
            file.flush()
            os.fsync(descriptor)  # else a power cut may leave an empty file, which no later start would dare to replace
        os.replace(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)


def drop(path: Path, pid: int) -> None:
    """Remove the file if it still speaks of the process, which has ended: another start may have come first."""
    with locked(path):
        match read(path):
            case Stale(gone) | Recycled(gone) if gone == pid:
                with suppress(PermissionError):  # whoever may not remove it may leave it: it deceives nobody
                    path.unlink(missing_ok=True)
            case _:
                pass


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One at a time among those who start and stop by files of that folder; the lock goes with the process."""
    with _folder_of(path) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX)
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
    """A process that began after its pid file was written is not the one that the file speaks of."""
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
    """Root trusts no file in which a user could have named a process that is not theirs: whoever is named is signalled."""
    if owner == 0:
        return True
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        return any(line.split()[1:2] == [str(owner)] for line in lines if line.startswith("Uid:"))
    return False


def _start_of(pid: int) -> str | None:
    """Of a process that runs; None for one that has ended, though its parent may not have taken note."""
    with suppress(OSError, IndexError):
        # After the name, which may itself hold parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        if fields[0] not in ("Z", "X"):
            return f"{_boot()} {fields[19]}"
    return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _uptime(start: str) -> float:
    """By the clock that nobody sets."""
    ticks = int(start.rpartition(" ")[2])
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


def _started_at(start: str) -> datetime:
    return datetime.fromtimestamp(time.time() - _uptime(start), UTC)
