"""The doorbell beside the file: whoever waits hangs a socket there, whoever has changed something rings it."""

import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

_LONGEST_ADDRESS = 100  # bytes; the system's limit is 108, or 104
_FULL = 8  # unread rings after which more may have been lost
_YOUNG_SECONDS = 2.0
_numbers = count(1)


class Bell:
    """Rings carry topics (`namespace:kind`, or `namespace:kind:which`), so that a sleeper can sleep on; whose socket says
    that it waits for other kinds is not woken at all. A ring may get lost: sleepers look for themselves now and then."""

    def __init__(self, database: Path) -> None:
        self._folder = Path(f"{database}-bell")
        self._place = str(self._folder)
        self._handle: int | None = None

    def ring(self, topics: Iterable[str]) -> None:
        """Wake those who wait. Never blocks, never fails: the change is already stored."""
        rung = list(topics)
        kinds = set(map(_kind, rung))
        try:
            names = [name for name in os.listdir(self._place) if _is_concerned(name, kinds)]
        except OSError:
            return
        if not names:
            return
        message = "\n".join(rung).encode()[:4096]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ringer:
            ringer.setblocking(False)
            for name in names:
                self._ring_one(ringer, name, message)

    @contextmanager
    def listening(self, topics: Iterable[str]) -> Iterator["Listener"]:
        """Hung before the first look, so that nothing can happen unheard between look and sleep."""
        name = "=".join([f"{os.getpid()}-{next(_numbers)}", *sorted(set(map(_kind, topics)))])
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
            ear.setblocking(False)
            try:
                self._folder.mkdir(exist_ok=True)
                ear.bind(self._address(name))
            except OSError:
                yield Listener(None)  # no place for a bell: looking now and then has to do
                return
            try:
                yield Listener(ear)
            finally:
                with suppress(OSError):
                    (self._folder / name).unlink()

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _ring_one(self, ringer: socket.socket, name: str, message: bytes) -> None:
        try:
            ringer.sendto(message, self._address(name))
        except ConnectionRefusedError:
            # Its owner was killed. One that was hung this moment may not answer yet.
            with suppress(OSError):
                if time.time() - (self._folder / name).lstat().st_mtime > _YOUNG_SECONDS:
                    (self._folder / name).unlink()
        except OSError:
            return  # full: it has been rung; gone: nobody waits

    def _address(self, name: str) -> str:
        """A path short enough for a socket: a deep folder is reached through a handle on it."""
        path = f"{self._place}/{name}"
        if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
            return path
        if self._handle is None:
            self._handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._handle}/{name}"


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
