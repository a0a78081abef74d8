"""Append to and read one file from many processes: writers take a lock, readers none, and a rename shrinks it."""

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stem.backends.file.lines import RevokeLine, is_foreign, puts
from stem.core.errors import StemError, StoreRefused, StoreUnavailable

_CHUNK_BYTES = 4 * 1024 * 1024
_SAMPLE_BYTES = 4096
_MARK_BYTES = 128
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.0005, 0.01

_REFUSED = {
    errno.ENOENT: "cannot be made because its directory is not there; create it first",
    errno.ENOTDIR: "cannot be made because its directory is none; choose another path",
    errno.EISDIR: "is a directory; name a file in it",
    errno.EACCES: "may not be used by this process; give it permission to read and write",
    errno.EPERM: "may not be used by this process; give it permission to read and write",
    errno.EROFS: "is on a disk that is read-only; choose another path",
    errno.ENOSPC: "cannot grow because its disk is full; free some space and try again",
    errno.EDQUOT: "cannot grow because the quota is used up; free some space and try again",
    errno.ENAMETOOLONG: "has too long a name for a file; choose another path",
    errno.ELOOP: "is a link that leads to itself; choose another path",
}


class Journal:
    def __init__(self, path: Path, timeout_seconds: float) -> None:
        self.path = path
        self._timeout_seconds = timeout_seconds

    def prepare(self) -> None:
        """Make the file, or check that it is one of ours. Its name is on the disk when this returns."""
        with self.translated():
            number = self._opened()
            try:
                if is_foreign(os.pread(number, _SAMPLE_BYTES, 0)):
                    raise StoreRefused(f"{self.path} holds something else than revokes; it was left untouched.")
                _sync_directory(self.path)
            finally:
                os.close(number)

    @contextmanager
    def writing(self) -> Iterator[int]:
        """The one writer of all processes, with the descriptor of the file that stands at the path."""
        with self.translated():
            number = self._locked()
            try:
                yield number
            finally:
                # Unlocked explicitly, not by the close: a child forked meanwhile shares the descriptor.
                fcntl.flock(number, fcntl.LOCK_UN)
                os.close(number)

    def append(self, number: int, content: bytes) -> None:
        """On the disk when this returns, whole or not at all."""
        size = os.fstat(number).st_size
        try:
            _write(number, content)
            os.fsync(number)
        except OSError:
            with suppress(OSError):
                os.ftruncate(number, size)
            raise

    def end_line(self, number: int) -> None:
        """If the last writer died in the middle of a line, let that be a line of its own."""
        size = os.fstat(number).st_size
        if size and os.pread(number, 1, size - 1) != b"\n":
            _write(number, b"\n")

    def replace(self, number: int, content: Iterable[bytes]) -> None:
        """Put a new file in the place of the one that is locked: a crash leaves the one or the other, whole."""
        old = os.fstat(number)
        draft = self.path.with_name(f"{self.path.name}.new")  # one name for all: only the holder of the lock writes it
        with suppress(FileNotFoundError):
            draft.unlink()
        new = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(new, "wb", buffering=_CHUNK_BYTES) as stream:
            stream.writelines(content)
            stream.flush()
            with suppress(PermissionError):
                os.fchown(new, old.st_uid, old.st_gid)
            os.fchmod(new, old.st_mode & 0o7777)
            os.fsync(new)
        draft.replace(self.path)
        _sync_directory(self.path)

    @contextmanager
    def translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._meaning(error) from error

    def _meaning(self, error: OSError) -> StemError:
        if error.errno in _REFUSED:
            return StoreRefused(f"{self.path} {_REFUSED[error.errno]}.")
        return StoreUnavailable(f"{self.path} could not be read or written ({error.strerror}); check its disk.")

    def _opened(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _locked(self) -> int:
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            number = self._opened()
            try:
                if self._is_mine(number, deadline):
                    return number
            except BaseException:
                os.close(number)
                raise
            os.close(number)

    def _is_mine(self, number: int, deadline: float) -> bool:
        """Locked, and still the file at the path: while we waited for the lock, its holder may have replaced the file."""
        wait_seconds = _FIRST_WAIT_SECONDS
        while True:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return _identity(os.fstat(number)) == _identity_at(self.path)
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise StoreUnavailable(
                        f"{self.path} stayed locked by another writer past the deadline; find out who holds it."
                    ) from error
            time.sleep(wait_seconds)
            wait_seconds = min(2 * wait_seconds, _LONGEST_WAIT_SECONDS)


class Follower:
    """Reads on from where it was, without a lock, and notices when the file is no longer the one that it has read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number: int | None = None  # kept open, so that no other file can get this one's identity
        self._position = 0
        self._mark = b""  # what stood before the position

    def follow(self, begin_anew: Callable[[], None], take: Callable[[list[RevokeLine]], None]) -> None:
        """Hand over each put that has come since, in order; after `begin_anew`, all there are."""
        if not self._is_same():
            self.close()
            begin_anew()
            self._number = _open_or_none(self._path)
        if self._number is None:
            return
        size = _CHUNK_BYTES
        while content := os.pread(self._number, size, self._position):
            end = 0
            for lines, end in puts(content):  # noqa: B007 - the last one counts
                take(lines)
            self._advance(content, end)
            if len(content) < size:
                return
            size = size if end else 2 * size  # a put, or rubbish, larger than a chunk

    def close(self) -> None:
        if self._number is not None:
            os.close(self._number)
        self._number, self._position, self._mark = None, 0, b""

    def _advance(self, content: bytes, length: int) -> None:
        self._position += length
        self._mark = (self._mark + content[:length])[-_MARK_BYTES:]

    def _is_same(self) -> bool:
        """False also for a file that was cut or written over in its place, say by a backup."""
        if self._number is None:
            return False
        status = os.fstat(self._number)
        if _identity(status) != _identity_at(self._path) or status.st_size < self._position:
            return False
        start = self._position - len(self._mark)
        return os.pread(self._number, len(self._mark), start) == self._mark


def lines_of(path: Path) -> list[RevokeLine]:
    """All that counts, read from the beginning."""
    found: list[RevokeLine] = []
    follower = Follower(path)
    try:
        follower.follow(lambda: None, found.extend)
    finally:
        follower.close()
    return found


def _open_or_none(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None  # nothing is revoked until somebody makes it again


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _identity_at(path: Path) -> tuple[int, int] | None:
    try:
        return _identity(os.stat(path))
    except FileNotFoundError:
        return None


def _write(number: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(number, view) :]


def _sync_directory(path: Path) -> None:
    number = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
