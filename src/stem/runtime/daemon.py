"""Start detached processes that log to a file and are known by a pid file, and stop them."""

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

_LOG_MODE = 0o640  # the output of tasks is not for other users


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """What to start. Paths are absolute; `command` is the program and its arguments."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)  # may hold passwords
    pidfile: Path
    logfile: Path
    workdir: Path


def launch(plan: LaunchPlan) -> "subprocess.Popen[bytes] | Running":
    """Start the process unless it runs already, and create missing folders. Raises ConfigError if a file or the program
    cannot be used. A pid file that cannot be read is not replaced: the worker may be running."""
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
        raise ConfigError(f"The folder {folder} cannot be created: {error.strerror}.") from error


def last_lines(logfile: Path, *, after: int = 0, most: int = 10) -> list[str]:
    """Return the last lines of the log, but nothing before the byte `after`."""
    try:
        with reading(logfile) as (descriptor, _), open(descriptor, "rb", closefd=False) as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(after, size - 65536))
            return log.read().decode(errors="replace").splitlines()[-most:]
    except OSError:
        return []


class ProcessHandle:
    """A running process, held by a descriptor so that no signal can reach a later process with the same number."""

    def __init__(self, path: Path, found: Running, descriptor: int) -> None:
        self.path = path
        self.found = found
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: Path, found: Running) -> "ProcessHandle | None":
        """Return None if the process has ended meanwhile."""
        try:
            descriptor = os.pidfd_open(found.pid)
        except ProcessLookupError:
            return None
        handle = cls(path, found, descriptor)
        # Read again: only now is it certain which process the descriptor is for.
        again = pidfile.read(path)
        if isinstance(again, Running) and again.start == found.start:
            return handle
        handle.close()
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
        """Kill the process, and its group if it leads one: a wrapper that did not pass TERM on leaves nothing behind."""
        pid = self.found.pid
        with suppress(ProcessLookupError):
            if os.getpgid(pid) == pid and not self.has_ended(0):
                os.killpg(pid, signal.SIGKILL)
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def has_ended(self, seconds: float) -> bool:
        """Wait up to this long for the process to end."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(max(0, seconds) * 1000))


def _spawn(plan: LaunchPlan) -> "subprocess.Popen[bytes]":
    try:
        with appending(plan.logfile, _LOG_MODE) as log:
            # The child writes the pid file before it executes the program, so that the program finds it there, and an
            # interrupted start leaves no process without a file.
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
        raise ConfigError(
            f"The pid file {plan.pidfile} cannot be written; check who may write to its folder."
        ) from error
    except OSError as error:
        if isinstance(pidfile.read(plan.pidfile), Stale):
            plan.pidfile.unlink(missing_ok=True)
        raise ConfigError(f"{error.filename or plan.command[0]} cannot be used: {error.strerror}.") from error
