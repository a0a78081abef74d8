"""Wake waiting processes through sockets in a folder beside the database."""

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


class Doorbell:
    """Wakes the listeners of a topic (`namespace:kind`, or `namespace:kind:which`).

    The name of a listener's socket tells the kinds that it waits for, so a ring goes only to listeners of its kind; these read
    the topics and go on sleeping if none is theirs. A ring may get lost, so listeners also look at the store now and then.
    """

    def __init__(self, database: Path) -> None:
        self._database = str(database)
        self._folder = f"{database}-bell"

    def ring(self, topics: Iterable[str]) -> None:
        """Wake the processes that wait for these topics. Never blocks and never fails: the change is already stored."""
        rung = list(topics)
        kinds = set(map(_kind, rung))
        with suppress(OSError):
            # Only names are read here, whatever user owns the folder. What acts on it comes after the check below, which would
            # cost every push more than the look does.
            names = [name for name in os.listdir(self._folder) if _is_concerned(name, kinds)]
            if names:
                self._ring_all(names, "\n".join(rung).encode()[:4096])

    @contextmanager
    def listening(self, topics: Iterable[str]) -> Iterator["DoorbellListener"]:
        """Listen from before the first look at the store, so that no ring is missed between look and sleep."""
        name = "=".join([f"{os.getpid()}-{next(_numbers)}", *sorted(set(map(_kind, topics)))])
        with ExitStack() as stack:
            receiver = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            receiver.setblocking(False)
            try:
                make_folder_beside(os.stat(self._database), self._folder)
                folder = stack.enter_context(self._opened())
                receiver.bind(self._address(folder, name))
            except OSError:
                yield DoorbellListener(None)  # no place for a doorbell: looking now and then has to do
                return
            try:
                yield DoorbellListener(receiver)
            finally:
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)

    def _opened(self) -> AbstractContextManager[int]:
        """Open the folder by its descriptor; a link that somebody planted in its place is refused. Raises OSError."""
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
        """Address the socket through the handle on the folder: that path is short enough, however deep the folder lies."""
        return f"{_HANDLES}/{folder}/{name}" if _HAS_HANDLES else f"{self._folder}/{name}"


def _kind(topic: str) -> str:
    return ":".join(topic.split(":", 2)[:2])


def _is_concerned(name: str, kinds: set[str]) -> bool:
    """Whether a socket of this name waits for one of the kinds. A name without kinds may wait for anything."""
    _, *waited_for = name.split("=")
    return not waited_for or not kinds.isdisjoint(waited_for)


class DoorbellListener:
    def __init__(self, receiver: socket.socket | None) -> None:
        self._socket = receiver

    def sleep(self, seconds: float, topics: frozenset[str]) -> bool:
        """Sleep until one of the topics rings or the time is up. True if one rang."""
        if self._socket is None:
            time.sleep(seconds)
            return False
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._heard(self._socket, left, topics):
                return True
        return False

    def _heard(self, receiver: socket.socket, seconds: float, topics: frozenset[str]) -> bool:
        rings = 0
        found = False
        receiver.settimeout(seconds)
        with suppress(TimeoutError, BlockingIOError):
            while True:
                message = receiver.recv(4096)
                receiver.setblocking(False)  # the first is waited for, the rest only drained
                rings += 1
                found = found or not topics.isdisjoint(message.decode(errors="replace").split("\n"))
        return found or rings >= _FULL
