"""Find and end what Spark leaves running on this machine when the process that started it dies."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from stem.core.errors import ConfigError
from stem.runtime.process import die_with

MARK = "STEM_SPARK_OWNER"  # in the environment of a JVM, of its Python workers, and of their children
LOOK_SECONDS = 0.02

# Only the owner holds its stdin open, so `cat` ends with the owner.
_SWEEP = 'cat > /dev/null; for _ in 1 2 3 4 5; do sleep 0.3; rm -rf -- "$1" && break; done'


def name_of(key: str) -> str:
    """A name for the task that is valid in file names and session ids."""
    return str(uuid5(NAMESPACE_URL, f"stem:{key}"))


def own_mark() -> str:
    """Identifies this process, and no later one with the same pid."""
    return f"{os.getpid()}.{_started(os.getpid())}"


def folder() -> Path:
    """The private folder of this user; processes named there are killed. Raises ConfigError."""
    path = Path(tempfile.gettempdir()) / f"stem-spark-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be made ({error.strerror}); set TMPDIR to a folder that can hold it."
        ) from error
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ConfigError(f"{path} belongs to others or is open to them; remove it.")
    return path


class TaskRegister:
    """Records which process of this machine runs which task: one file per task, left behind by a process that dies."""

    def __init__(self) -> None:
        self._folder = folder() / "running"
        self._folder.mkdir(exist_ok=True)
        self._mark = own_mark()
        self._tidy()

    @contextmanager
    def entered(self, key: str) -> Iterator[None]:
        path = self._path(key)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(self._mark)
        fresh.replace(path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

    def end_earlier(self, key: str) -> None:
        """Kill what another process of this machine has started for the task, and wait until it is gone."""
        try:
            mark = self._path(key).read_text()
        except FileNotFoundError:
            return
        if mark and mark != self._mark:
            end(mark)
        self._path(key).unlink(missing_ok=True)

    def _tidy(self) -> None:
        """Remove the files of processes that are gone."""
        living = marks()
        for entry in self._folder.iterdir():
            with suppress(OSError):
                if entry.read_text() not in living:
                    entry.unlink()
        for place in self._folder.parent.glob("*.*"):
            if place.name not in living:
                shutil.rmtree(place, ignore_errors=True)

    def _path(self, key: str) -> Path:
        return self._folder / name_of(key)


def end(mark: str) -> None:
    """Kill the processes with this mark. The owner itself is left to its supervisor."""
    while found := marked(mark):
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_SECONDS)


def marked(mark: str) -> list[int]:
    """The pids of processes with this mark; zombies have none."""
    return [pid for pid, found in _marked() if found == mark]


def marks() -> set[str]:
    """The marks of all processes: as owners, and in the environment of what they started."""
    found = {mark for _, mark in _marked()}
    for pid in _pids():
        with suppress(OSError):
            found.add(f"{pid}.{_started(pid)}")
    return found


def _marked() -> Iterator[tuple[int, str]]:
    start = f"{MARK}=".encode()
    for pid in _pids():
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            for word in file.read().split(b"\x00"):
                if word.startswith(start):
                    yield pid, word[len(start) :].decode()


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def python_workers(mark: str) -> list[int]:
    """The pids of Spark's Python workers, without the daemon that forks them."""
    daemons = {pid for pid in marked(mark) if b"pyspark.daemon" in _command(pid)}
    return [pid for pid in daemons if _parent(pid) in daemons]


@contextmanager
def killed_with_this_process() -> Iterator[None]:
    """Let the next process started with a `preexec_fn`, as PySpark starts its JVM, die with this one."""
    os.environ[MARK] = own_mark()
    _dying_with.append(os.getpid())
    try:
        yield
    finally:
        _dying_with.clear()


def self_removing_folder() -> Path:
    """A folder for files of Spark, removed when this process ends, even by a kill."""
    path = folder() / own_mark()
    path.mkdir(exist_ok=True)
    bare = {name: value for name, value in os.environ.items() if name != MARK}
    sweeper = subprocess.Popen(  # noqa: S603 - a constant
        ["/bin/sh", "-c", _SWEEP, "sweep", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=bare,
        start_new_session=True,
    )
    _sweepers.append(sweeper)
    return path


_dying_with: list[int] = []
_sweepers: list["subprocess.Popen[bytes]"] = []  # keeps their stdin open


def _in_child() -> None:
    if _dying_with:
        die_with(_dying_with[0])


os.register_at_fork(after_in_child=_in_child, after_in_parent=_dying_with.clear)


def _started(pid: int) -> str:
    return _stat(pid)[19]


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(_stat(pid)[1])
    return 0


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may contain anything."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()


def _command(pid: int) -> bytes:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
    return b""
