"""Processes that are started and left: detached, their output in a log, known by their pid file, ended when told."""

import os
import select
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from stem.core.errors import ConfigError
from stem.runtime import pidfile
from stem.runtime.files import appending, reading
from stem.runtime.pidfile import Running, Stale, Unreadable

_LOG_MODE = 0o640  # what tasks print is not for everybody


@dataclass(frozen=True, slots=True)
class Plan:
    """What to start. Paths are absolute; `command` is the program and its words."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)  # may hold passwords
    pidfile: Path
    logfile: Path
    workdir: Path


def launch(plan: Plan) -> "subprocess.Popen[bytes] | Running":
    """Start it, unless it runs already, in folders that are made where they are missing. Raises ConfigError where a file
    or the program will not do. A pid file that cannot be read is not replaced: the worker may be running."""
    for folder in (plan.pidfile.parent, plan.logfile.parent, plan.workdir):
        make_folder(folder)
    with pidfile.locked(plan.pidfile):
        found = pidfile.read(plan.pidfile)
        if isinstance(found, Unreadable):
            raise ConfigError(pidfile.sentence(plan.pidfile, found))
        return found if isinstance(found, Running) else _spawn(plan)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"The folder {folder} cannot be made: {error.strerror}.") from error


def last_lines(logfile: Path, *, after: int = 0, most: int = 10) -> list[str]:
    """The end of the log, but nothing before the byte `after`."""
    try:
        with reading(logfile) as (descriptor, _), open(descriptor, "rb", closefd=False) as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(after, size - 65536))
            return log.read().decode(errors="replace").splitlines()[-most:]
    except OSError:
        return []


class Held:
    """A process by its descriptor: no signal can reach a later one with the same number."""

    def __init__(self, path: Path, found: Running, descriptor: int) -> None:
        self.path = path
        self.found = found
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path, found: Running) -> "Held | None":
        """None: it has ended meanwhile."""
        try:
            descriptor = os.pidfd_open(found.pid)
        except ProcessLookupError:
            return None
        held = cls(path, found, descriptor)
        # Looked at once more: only now is it certain whom the descriptor is for.
        again = pidfile.read(path)
        if isinstance(again, Running) and again.start == found.start:
            return held
        held.close()
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)

    def terminate(self) -> None:
        """Raises PermissionError."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGTERM)

    def kill(self) -> None:
        """With its whole group, where it leads one: a wrapper that did not pass TERM on leaves nothing behind."""
        pid = self.found.pid
        with suppress(ProcessLookupError):
            if os.getpgid(pid) == pid and not self.has_ended(0):
                os.killpg(pid, signal.SIGKILL)
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def has_ended(self, seconds: float) -> bool:
        """Wait for it so long."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(max(0, seconds) * 1000))


def _spawn(plan: Plan) -> "subprocess.Popen[bytes]":
    try:
        with appending(plan.logfile, _LOG_MODE) as log:
            # The child writes the file itself before it becomes the program: so the program finds it there, and a start
            # that is cut off leaves no process that no file knows of.
            return subprocess.Popen(  # noqa: S603 - the command is the operator's own
                plan.command,
                env=plan.environment,
                cwd=plan.workdir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=lambda: pidfile.write_own(plan.pidfile),
            )
    except subprocess.SubprocessError as error:
        raise ConfigError(f"The pid file {plan.pidfile} cannot be written; see who may write to its folder.") from error
    except OSError as error:
        if isinstance(pidfile.read(plan.pidfile), Stale):
            plan.pidfile.unlink(missing_ok=True)
        raise ConfigError(f"{error.filename or plan.command[0]} cannot be used: {error.strerror}.") from error
