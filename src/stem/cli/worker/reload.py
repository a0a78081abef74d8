"""Restart a worker whenever a Python file changes, for development."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Self

from stem.cli.support import failure
from stem.core.errors import UsageError

if TYPE_CHECKING:
    from stem.worker.supervisor import Worker

log = logging.getLogger("stem.reload")

LOOK_SECONDS = 0.4
_IGNORED = {"node_modules", "site-packages"}

Stamps = dict[str, tuple[int, int]]


def run_reloading(make: "Callable[[], Worker]", run: "Callable[[Worker], int]", folders: Sequence[Path]) -> int:
    """Run workers until a signal arrives. If the app cannot be loaded, log why and wait for the next change."""
    while True:
        worker, code = make(), 0
        # A soft stop: running tasks get its grace period, then go back to their queue.
        with FileWatch(folders, lambda worker=worker: worker.stop("soft")) as watch:  # type: ignore[misc]
            try:
                code = run(worker)
            except UsageError as error:
                log.error("reload.failed: %s Waiting for the next change.", failure.one_line(str(error)))
                watch.wait()
        if worker.has_heard_signal or not watch.has_changed:
            return code
        log.info("reload.changed file=%s", watch.changed_file)


class FileWatch:
    """Calls `changed` once, when a `*.py` file below the folders differs from when the watch was created."""

    def __init__(self, folders: Sequence[Path], changed: Callable[[], object]) -> None:
        from stem.runtime.service import Ticker

        self._folders = folders
        self._changed = changed
        self._before = stamps(folders)
        self._has_changed = Event()
        self._ticker = Ticker("reload", LOOK_SECONDS, self._look)
        self.changed_file = ""

    @property
    def has_changed(self) -> bool:
        return self._has_changed.is_set()

    def wait(self) -> None:
        self._has_changed.wait()

    def __enter__(self) -> Self:
        self._ticker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ticker.stop()

    def _look(self) -> None:
        if self.has_changed:
            return
        now = stamps(self._folders)
        differing = {file for file, _ in now.items() ^ self._before.items()}
        if differing:
            self.changed_file = min(differing)
            self._has_changed.set()
            self._changed()


def stamps(folders: Sequence[Path]) -> Stamps:
    return dict(stamp for folder in folders for stamp in _stamps_of(folder))


def _stamps_of(folder: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    for parent, subfolders, files in os.walk(folder):
        subfolders[:] = [name for name in subfolders if _is_watched(parent, name)]
        for name in files:
            if name.endswith(".py"):
                file = os.path.join(parent, name)
                try:
                    seen = os.stat(file)
                except FileNotFoundError:  # an editor is just replacing it
                    continue
                yield file, (seen.st_mtime_ns, seen.st_size)


def _is_watched(parent: str, name: str) -> bool:
    is_hidden = name.startswith((".", "__pycache__")) or name in _IGNORED
    return not is_hidden and not os.path.exists(os.path.join(parent, name, "pyvenv.cfg"))
