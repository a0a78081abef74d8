"""Opens files and folders that another user may have planted: never through a link, owner and type checked.

Every check is made on the descriptor that is used afterwards, so nothing can be swapped between check and use. Only the
last part of a path is guarded: the folders above it are the operator's choice, and may well be links (`/var/run`).
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_GUARD = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # a planted FIFO must not block the opener


class Untrusted(OSError):
    """The file may be another user's trap; `strerror` says why."""

    def __init__(self, reason: str, path: Path | str) -> None:
        super().__init__(errno.EPERM, reason, str(path))


@contextmanager
def reading(path: Path) -> Iterator[tuple[int, os.stat_result]]:
    """Open a regular file that has one name, and yield its stat; the caller checks its owner. Raises OSError."""
    with _opened(path, os.O_RDONLY) as descriptor:
        yield descriptor, _check_single(descriptor, path)


@contextmanager
def appending(path: Path, mode: int) -> Iterator[int]:
    """Open a file of ours or root's, or a device such as /dev/null, for appending; create it with `mode`. Raises OSError."""
    with _opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode) as descriptor:
        if not stat.S_ISCHR(os.fstat(descriptor).st_mode):
            _check_owner(_check_single(descriptor, path), path, {0, os.geteuid()})
        os.set_blocking(descriptor, True)
        yield descriptor


@contextmanager
def folder_beside(file: os.stat_result, path: Path | str) -> Iterator[int]:
    """Open the folder that belongs to a file. Raises OSError if it is a link, if its owner is neither us, nor root, nor the
    file's owner, or if users may write to it who may not write to the file."""
    with _opened(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        found = os.fstat(descriptor)
        _check_owner(found, path, {0, os.geteuid(), file.st_uid})
        if found.st_mode & OTHERS_WRITE & ~file.st_mode:
            raise Untrusted("other users may write to it", path)
        yield descriptor


def make_folder_beside(file: os.stat_result, path: Path | str) -> None:
    """Create a folder for the users who may write to the file. An existing one stays as it is."""
    group = 0o070 if file.st_mode & stat.S_IWGRP else 0
    world = 0o007 if file.st_mode & stat.S_IWOTH else 0
    with suppress(FileExistsError):
        os.mkdir(path, 0o700 | group | world)


def make_file(path: Path, mode: int) -> None:
    """Create an empty file. An existing one stays as it is. Raises OSError."""
    with suppress(FileExistsError):
        try:
            # Not opened: closing a second handle would drop the locks that SQLite may hold on it by then.
            os.mknod(path, stat.S_IFREG | mode)
        except PermissionError:  # macOS lets only root do this
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))


@contextmanager
def _opened(path: Path | str, flags: int, mode: int = 0) -> Iterator[int]:
    try:
        descriptor = os.open(path, flags | _GUARD, mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and os.path.islink(path):
            raise Untrusted("it is a symbolic link", path) from error
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _check_single(descriptor: int, path: Path) -> os.stat_result:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise Untrusted("it is not a regular file", path)
    if found.st_nlink > 1:
        raise Untrusted("it has a second name (a hard link)", path)
    return found


def _check_owner(found: os.stat_result, path: Path | str, trusted: set[int]) -> None:
    if found.st_uid not in trusted:
        raise Untrusted(f"it belongs to user {found.st_uid}", path)
