"""What Spark leaves running when the process dies that started it, and how the next attempt on this machine ends it."""

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

MARK = "STEM_SPARK_OWNER"  # in the environment of a JVM, of its Python workers, and of whatever those start
LOOK_SECONDS = 0.02

# Its input is held open by the owner alone, so it ends with the owner; by then the JVM has got its own signal.
_SWEEP = 'cat > /dev/null; for _ in 1 2 3 4 5; do sleep 0.3; rm -rf -- "$1" && break; done'


def name_of(key: str) -> str:
    """One name for a task in files and session ids, whatever characters its id has."""
    return str(uuid5(NAMESPACE_URL, f"stem:{key}"))


def own_mark() -> str:
    """This process, and no later one with its number."""
    return f"{os.getpid()}.{_started(os.getpid())}"


def folder() -> Path:
    """Private: what is named here is killed. Raises ConfigError."""
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


class Register:
    """Which process of this machine runs which task: a file each, there while it runs, or has died of it."""

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
        """Kill what another process of this machine has running for the task; it is gone when this returns."""
        try:
            mark = self._path(key).read_text()
        except FileNotFoundError:
            return
        if mark and mark != self._mark:
            end(mark)
        self._path(key).unlink(missing_ok=True)

    def _tidy(self) -> None:
        """Forget those who are dead with all that was theirs, and remove what they wrote down."""
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
    """Not the owner itself: without its JVM it can do no harm, and whether it lives is its supervisor's business."""
    while found := marked(mark):
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_SECONDS)


def marked(mark: str) -> list[int]:
    """The processes with that mark; one that is dying or unburied has none any more."""
    return [pid for pid, found in _marked() if found == mark]


def marks() -> set[str]:
    """Of all that live: the owners', and those that what they started has."""
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
    """Those that run the Python of Spark jobs, not the process that they are forked from."""
    daemons = {pid for pid in marked(mark) if b"pyspark.daemon" in _command(pid)}
    return [pid for pid in daemons if _parent(pid) in daemons]


@contextmanager
def dying_with_us() -> Iterator[None]:
    """The next process that is started by way of a `preexec_fn`, as PySpark starts its JVM, dies when this one does."""
    os.environ[MARK] = own_mark()
    _births.append(os.getpid())
    try:
        yield
    finally:
        _births.clear()


def swept_after_us() -> Path:
    """A folder for what Spark writes down, removed when this process has ended, however."""
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


_births: list[int] = []
_sweepers: list["subprocess.Popen[bytes]"] = []  # dropped, it would take our end for come


def _in_child() -> None:
    if _births:
        die_with(_births[0])


os.register_at_fork(after_in_child=_in_child, after_in_parent=_births.clear)


def _started(pid: int) -> str:
    return _stat(pid)[19]


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(_stat(pid)[1])
    return 0


def _stat(pid: int) -> list[str]:
    """What follows the name, in which there may be anything."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()


def _command(pid: int) -> bytes:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
    return b""
