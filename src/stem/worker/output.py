"""What tasks print and log: marked with the task's id on one side, read line by line on the other."""

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextvars import ContextVar

_START, _END = "\x02", "\x03"
MAX_LINE = 64 * 1024

_task: ContextVar[str] = ContextVar("stem_output_task", default="")


class TaskOutput(io.TextIOBase):
    """Stands for stdout and stderr in an isolate: whole lines, each with the id of the task that wrote it.

    What goes around it (a subprocess, C code) reaches the same pipe unmarked.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._parts: dict[str, str] = {}

    @property
    def task(self) -> str:
        return _task.get()

    @task.setter
    def task(self, task_id: str) -> None:
        _task.set(task_id)

    def write(self, text: str) -> int:
        task = _task.get()
        head, newline, tail = (self._parts.pop(task, "") + text).rpartition("\n")
        if newline:
            self._put(task, head)
        if len(tail) > MAX_LINE:
            self._put(task, tail)
        elif tail:
            self._parts[task] = tail
        return len(text)

    def flush(self) -> None:
        """What has no end of line yet goes out as a line of its own."""
        if part := self._parts.pop(_task.get(), ""):
            self._put(_task.get(), part)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._descriptor

    def _put(self, task: str, text: str) -> None:
        mark = f"{_START}{task}{_END}"
        data = "".join(f"{mark}{line}\n" for line in text.split("\n")).encode(errors="backslashreplace")
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]


def take_over(stream: TaskOutput) -> None:
    """Let all that this process prints or logs go through the stream. An app that has set up no logging logs from
    STEM_LOG_LEVEL on, else from INFO."""
    replaced = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    sys.stdout = sys.stderr = stream
    root = logging.getLogger()
    loggers = [root, *(each for each in root.manager.loggerDict.values() if isinstance(each, logging.Logger))]
    for handler in [handler for logger in loggers for handler in logger.handlers]:
        # One that was made when the app was imported writes to what stdout and stderr were then.
        if isinstance(handler, logging.StreamHandler) and handler.stream in replaced:
            handler.setStream(stream)
    if not root.handlers:
        level = logging.getLevelName(os.environ.get("STEM_LOG_LEVEL", "").upper())
        logging.basicConfig(
            stream=stream,
            level=level if isinstance(level, int) else logging.INFO,
            format="%(levelname)s %(name)s: %(message)s",
        )


class Lines:
    """Cuts what an isolate's pipe brings into lines with the task's id; "" where no task has marked them."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[str, str]]:
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE:
            whole.append(self._rest)
            self._rest = b""
        return map(_read, whole)

    def end(self) -> Iterator[tuple[str, str]]:
        rest, self._rest = self._rest, b""
        return map(_read, [rest] if rest else [])


def _read(line: bytes) -> tuple[str, str]:
    text = line.decode(errors="backslashreplace")
    if text.startswith(_START) and _END in text:
        task, _, text = text[1:].partition(_END)
        return task, text
    return "", text
