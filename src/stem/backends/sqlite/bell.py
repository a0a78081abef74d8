"""The doorbell beside the file: whoever waits hangs a socket there, whoever has changed something rings it."""

import os
import socket
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

from stem.runtime.files import folder_beside, make_folder_beside

_HANDLES = "/proc/self/fd"
_HAS_HANDLES = os.path.isdir(_HANDLES)
_FULL = 8  # unread rings after which more may have been lost
_YOUNG_SECONDS = 2.0
_numbers = count(1)


class Bell:
    """Rings carry topics (`namespace:kind`, or `namespace:kind:which`), so that a sleeper can sleep on; whose socket says
    that it waits for other kinds is not woken at all. A ring may get lost: sleepers look for themselves now and then."""

    def __init__(self, database: Path) -> None:
        self._database = str(database)
        self._folder = f"{database}-bell"

    def ring(self, topics: Iterable[str]) -> None:
        """Wake those who wait. Never blocks, never fails: the change is already stored."""
        rung = list(topics)
        kinds = set(map(_kind, rung))
        with suppress(OSError):
            # Only names are read here, whoever owns the folder. What acts on it comes after the check below, which would
            # cost every push more than the look does.
            names = [name for name in os.listdir(self._folder) if _is_concerned(name, kinds)]
            if names:
                self._ring_all(names, "\n".join(rung).encode()[:4096])

    @contextmanager
    def listening(self, topics: Iterable[str]) -> Iterator["Listener"]:
        """Hung before the first look, so that nothing can happen unheard between look and sleep."""
        name = "=".join([f"{os.getpid()}-{next(_numbers)}", *sorted(set(map(_kind, topics)))])
        with ExitStack() as stack:
            ear = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            ear.setblocking(False)
            try:
                make_folder_beside(os.stat(self._database), self._folder)
                folder = stack.enter_context(self._opened())
                ear.bind(self._address(folder, name))
            except OSError:
                yield Listener(None)  # no place for a bell: looking now and then has to do
                return
            try:
                yield Listener(ear)
            finally:
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)

    def _opened(self) -> AbstractContextManager[int]:
        """The folder by its descriptor: a link that somebody planted in its place is refused. Raises OSError."""
        return folder_beside(os.stat(self._database), self._folder)

    def _ring_all(self, names: list[str], message: bytes) -> None:
        with self._opened() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ringer:
            ringer.setblocking(False)
            for name in names:
                self._ring_one(ringer, folder, name, message)

    def _ring_one(self, ringer: socket.socket, folder: int, name: str, message: bytes) -> None:
        try:
            ringer.sendto(message, self._address(folder, name))
        except ConnectionRefusedError:
            # Its owner was killed. One that was hung this moment may not answer yet.
            with suppress(OSError):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISSOCK(found.st_mode) and time.time() - found.st_mtime > _YOUNG_SECONDS:
                    os.unlink(name, dir_fd=folder)
        except OSError:
            return  # full: it has been rung; gone: nobody waits

    def _address(self, folder: int, name: str) -> str:
        """Through the handle on the folder, which is also short enough for a socket, however deep the folder lies."""
        return f"{_HANDLES}/{folder}/{name}" if _HAS_HANDLES else f"{self._folder}/{name}"


def _kind(topic: str) -> str:
    return ":".join(topic.split(":", 2)[:2])


def _is_concerned(name: str, kinds: set[str]) -> bool:
    """By the name of its socket; one that names no kind may wait for anything."""
    _, *waited_for = name.split("=")
    return not waited_for or not kinds.isdisjoint(waited_for)


class Listener:
    def __init__(self, ear: socket.socket | None) -> None:
        self._ear = ear

    def sleep(self, seconds: float, topics: frozenset[str]) -> bool:
        """Until rung for one of the topics, or the time is up; True for the former."""
        if self._ear is None:
            time.sleep(seconds)
            return False
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._heard(self._ear, left, topics):
                return True
        return False

    def _heard(self, ear: socket.socket, seconds: float, topics: frozenset[str]) -> bool:
        rings = 0
        found = False
        ear.settimeout(seconds)
        with suppress(TimeoutError, BlockingIOError):
            while True:
                message = ear.recv(4096)
                ear.setblocking(False)  # the first is waited for, the rest only drained
                rings += 1
                found = found or not topics.isdisjoint(message.decode(errors="replace").split("\n"))
        return found or rings >= _FULL
