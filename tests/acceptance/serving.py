"""A worker that was started from the command line, and what it says."""

import json
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from acceptance.shell import STEM, Shell
from support.until import until


class Serving:
    """`stem worker start`, as a process of its own; killed with all it has started when the block ends."""

    def __init__(self, shell: Shell, *words: str, around: Sequence[str] = ()) -> None:
        """`around` is a command that runs the worker's, such as setsid."""
        self._log = Path(shell.directory, f"worker-{id(self)}.log")
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*around, STEM, "worker", "start", *words],
                cwd=shell.directory,
                env=shell.variables,
                stdout=log,
                stderr=log,
            )
        self._started: list[psutil.Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._started += self.children
        self.process.kill()
        self.process.wait()
        for child in self._started:
            with suppress(psutil.NoSuchProcess):  # most end by themselves, and may do so at this moment
                child.kill()
        if error is not None:
            error.add_note(self.log)

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.splitlines()]

    @property
    def children(self) -> list[psutil.Process]:
        """Its fork server, its isolates, and what they have started."""
        return psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []

    def says(self, text: str, *, times: int = 1) -> None:
        """Wait until it has said so."""
        until(lambda: self.log.count(text) >= times or self.process.poll() is not None, seconds=30)
        assert self.log.count(text) >= times, self.log

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code after the signal."""
        self.process.send_signal(number)
        return self.process.wait(timeout=30)
